import FreshetService
import KafkaClient
import PostgresClient
import ReloadIngest
import WidgetStore

extension Doctor {
    private static let positions = "kafka.positions"

    /// Checks that each partition has the next offset to apply, and that it can be read there.
    func checkPositions(_ pool: PostgresPool) async throws -> [Finding] {
        guard let kafka = settings.namedKafka else { return [] }
        try await requireMigrations(Self.positions, pool)
        let inputs = Set(settings.topics.inputs)
        let rows = try await pool.query(.listPositions()).filter { inputs.contains($0.topic) }
        let next = Dictionary(
            rows.compactMap { row in
                row.nextOffset.map { (TopicPartition(topic: row.topic, partition: row.partition), $0) }
            }
        ) { $1 }
        guard !next.isEmpty else { throw Finding.skipped(Self.positions, "no partition has been read yet") }
        var last: [TopicPartition: KafkaFingerprint] = [:]
        for row in rows {
            guard let offset = row.lastOffset, let hash = row.lastHash else { continue }
            last[TopicPartition(topic: row.topic, partition: row.partition)] = KafkaFingerprint(
                offset: offset, hash: hash)
        }
        do throws(KafkaError) {
            return try await judge(next, last, kafka)
        } catch {
            throw Finding.warning(
                Self.positions, "the positions cannot be compared with the logs: \(error)",
                "check the leaders of the input topics")
        }
    }

    private func judge(
        _ next: [TopicPartition: Int64], _ last: [TopicPartition: KafkaFingerprint], _ kafka: KafkaConfiguration
    ) async throws(KafkaError) -> [Finding] {
        let places = next.keys.sorted()
        let bounds = try await KafkaAdmin(configuration: kafka, timeout: timeLimit / 3, logger: logger).bounds(
            of: places)
        let reader = KafkaReader(configuration: kafka, logger: logger)
        let timeout = min(.seconds(3), timeLimit / 5)
        let present = try await reader.fingerprints(at: last.mapValues(\.offset), timeout: timeout)
        var found: [Finding] = []
        for place in places {
            var gap = LogGap(partition: place, offset: next[place] ?? 0, bounds: bounds[place])
            if let known = last[place], let message = present[place], message != known {
                gap = LogGap(partition: place, offset: known.offset, bounds: bounds[place], isOtherLog: true)
            }
            switch gap.cause {
            case .retention, .beyondEnd, .otherLog:
                found.problem(
                    Self.positions, "\(place): \(gap.explanation)",
                    "restore the log, or go on with what it has: \(gap.command)")
            case .none, .unknown: break
            }
        }
        let waiting = next.filter { place, offset in
            bounds[place].map { $0.earliest <= offset && offset < $0.end } ?? false
        }
        let errors = try await reader.check(waiting, timeout: timeout)
        for (place, error) in errors.sorted(by: { $0.key < $1.key }) {
            let batch = UnreadableBatch(partition: place, offset: next[place] ?? 0, reason: error.message)
            if error.isUnreadableBatch {
                found.problem(Self.positions, batch.explanation, "repair the log, or skip the batch: \(batch.command)")
            } else {
                found.warning(Self.positions, "\(place) could not be read: \(error)", "check its leader")
            }
        }
        let hasFindings = !found.isEmpty
        // Transactions of some producers last for minutes, so that an open one alone is no trouble.
        for open in try await openTransactions(at: next, bounds, kafka) { found.ok(Self.positions, open) }
        if !hasFindings { found.ok(Self.positions, "\(places.count) partitions can be read at their positions") }
        return found
    }

    /// Describes the partitions whose next message is behind the start of an open transaction.
    private func openTransactions(
        at next: [TopicPartition: Int64], _ bounds: [TopicPartition: KafkaLogBounds], _ kafka: KafkaConfiguration
    ) async throws(KafkaError) -> [String] {
        var kafka = kafka
        kafka.properties["isolation.level"] = "read_uncommitted"
        let stopped = next.filter { $0.value == bounds[$0.key]?.end }.keys.sorted()
        let all = try await KafkaAdmin(configuration: kafka, timeout: timeLimit / 3, logger: logger).bounds(of: stopped)
        return stopped.compactMap { place in
            guard let end = all[place]?.end, let next = next[place], end > next else { return nil }
            return "\(place): \(end - next) messages from offset \(next) on wait for an open transaction"
        }
    }
}
