// SPDX-License-Identifier: Apache-2.0

import FreshetService
import KafkaClient
import PostgresClient
import ReloadIngest
import WidgetModel
import WidgetStore

extension Doctor {
    func checkKafka() async throws -> [Finding] {
        guard let kafka = settings.namedKafka else {
            guard settings.kafka.embedded else {
                throw Finding.problem(
                    in: "kafka", "neither kafka.bootstrapServers nor kafka.embedded is set: nothing starts",
                    advice: "name the brokers in kafka.bootstrapServers")
            }
            throw Finding.warning(
                in: "kafka", "kafka.embedded: the process runs a cluster in its memory, which ends with it",
                advice: "name brokers in kafka.bootstrapServers wherever events must not be lost")
        }
        let admin = KafkaAdmin(configuration: kafka, timeout: timeLimit / 3, logger: logger)
        let plan: TopicPlan
        do throws(KafkaError) {
            plan = try await TopicPlan(asking: admin, for: settings.topicTargets)
        } catch {
            throw Finding.problem(
                in: "kafka", "\(kafka.bootstrapServers) cannot be used: \(error)",
                advice:
                    "check that the brokers run and can be reached from here, and that kafka.properties has the TLS and "
                    + "SASL settings that they need")
        }
        return [.ok(in: "kafka", "\(kafka.bootstrapServers) answers")] + topics(plan) + (await reading(plan, kafka))
    }

    /// Checks that the stored positions are of the cluster that the settings lead to.
    func checkCluster(_ pool: PostgresPool) async throws -> [Finding] {
        guard let kafka = settings.namedKafka else { return [] }
        guard let id = try await KafkaAdmin(configuration: kafka, timeout: timeLimit / 3, logger: logger).clusterID()
        else { throw Finding.skipped(in: "kafka.cluster", "the brokers report no id of their cluster") }
        let recorded = try await pool.query(Statements.readCluster()).first ?? id
        guard recorded != id, !EmbeddedKafka.isID(recorded) else {
            return [.ok(in: "kafka.cluster", "\(id) is the cluster of the positions")]
        }
        throw Finding.problem(
            in: "kafka.cluster", ClusterCheck.message(recorded: recorded, found: id),
            advice: "correct kafka.bootstrapServers, or accept the cluster: no process starts")
    }

    private func topics(_ plan: TopicPlan) -> [Finding] {
        var found = plan.summaries.map { summary in
            Finding(
                check: "kafka.topics", severity: summary.kind.isProblem ? .problem : .warning,
                message: summary.sentence, advice: summary.advice)
        }
        let leaderless = plan.states.values.filter { $0.description.partitions.contains { $0.leader == nil } }
        for state in leaderless {
            found.append(
                .problem(
                    in: "kafka.topics", "\(state.description.name) has partitions without a leader",
                    advice: "check its brokers: those partitions can be neither read nor written"))
        }
        let lone = plan.states.values.filter { $0.description.partitions.contains { $0.replicas.count < 2 } }
        if !lone.isEmpty {
            found.append(
                .warning(
                    in: "kafka.topics", "\(lone.count) topics have a single replica",
                    advice: "add replicas: the loss of a broker loses events"))
        }
        if !plan.unknown.isEmpty {
            found.append(
                .skipped(
                    in: "kafka.topics",
                    "these credentials may not read the configuration of \(plan.unknown.count) topics",
                    advice: "allow DESCRIBE_CONFIGS on them, so that retention and compaction can be checked"))
        }
        if !found.contains(where: { $0.severity >= .warning }) {
            found.append(.ok(in: "kafka.topics", "all \(plan.targets.count) are there, with their partitions"))
        }
        return found
    }

    /// Checks that these credentials may read the input topics. Writing is not tried, since it cannot be undone.
    private func reading(_ plan: TopicPlan, _ kafka: KafkaConfiguration) async -> [Finding] {
        var (refused, unread): ([String], [(topic: String, error: KafkaError)]) = ([], [])
        for topic in settings.topics.inputs where plan.states[topic] != nil {
            let reader = KafkaReader(configuration: kafka, logger: logger)
            do throws(KafkaError) {
                _ = try await reader.message(topic: topic, partition: 0, offset: 0, timeout: timeLimit / 5)
            } catch {
                if error.code == .topicAuthorizationFailed {
                    refused.append(topic)
                } else {
                    unread.append((topic, error))
                }
            }
        }
        var found: [Finding] = []
        if !refused.isEmpty {
            found.append(
                .problem(
                    in: "kafka.acls",
                    "these credentials may not read \(refused.joined(separator: ", "))",
                    advice:
                        "allow the principal of ingest to READ the topics, and the group \(settings.kafka.group) for lag tools"
                ))
        }
        if let first = unread.first {
            let names = unread.map(\.topic).joined(separator: ", ")
            found.append(
                .warning(
                    in: "kafka.acls", "\(names) could not be read: \(first.error)",
                    advice: "check the leaders of the partitions 0"))
        }
        if found.isEmpty, !plan.states.isEmpty {
            found.append(
                .ok(
                    in: "kafka.acls",
                    "the input topics can be read; the rights to the group \(settings.kafka.group) and to write show only "
                        + "when ingest and workers run"))
        }
        return found
    }
}

extension TopicDifference.Kind {
    /// True if Freshet fails or loses data because of the difference.
    fileprivate var isProblem: Bool {
        switch self {
        case .missing, .cleanupPolicy: true
        case .partitions, .replication, .retention: false
        }
    }
}

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
        guard !next.isEmpty else { throw Finding.skipped(in: Self.positions, "no partition has been read yet") }
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
                in: Self.positions, "the positions cannot be compared with the logs: \(error)",
                advice: "check the leaders of the input topics")
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
        let present = try await reader.messages(at: last.mapValues(\.offset), timeout: timeout)
        var found: [Finding] = []
        for place in places {
            var gap = LogGap(partition: place, offset: next[place] ?? 0, bounds: bounds[place])
            if let known = last[place], case .success(let batch?) = present[place], batch.fingerprint(0) != known {
                gap = LogGap(partition: place, offset: known.offset, bounds: bounds[place], isOtherLog: true)
            }
            switch gap.cause {
            case .retention, .beyondEnd, .otherLog:
                found.append(
                    .problem(
                        in: Self.positions, "\(place): \(gap.explanation)",
                        advice: "restore the log, or go on with what it has: \(gap.command)"))
            case .none, .unknown: break
            }
        }
        let waiting = next.filter { place, offset in
            bounds[place]?.contains(offset) ?? false
        }
        let answers = try await reader.messages(at: waiting, timeout: timeout)
        var unread: [(place: TopicPartition, error: KafkaError)] = []
        for (place, answer) in answers.sorted(by: { $0.key < $1.key }) {
            guard case .failure(let error) = answer else { continue }
            let batch = UnreadableBatch(partition: place, offset: next[place] ?? 0, reason: error.message)
            if error.isUnreadableBatch {
                found.append(
                    .problem(
                        in: Self.positions, batch.explanation,
                        advice: "repair the log, or skip the batch: \(batch.command)"
                    ))
            } else {
                unread.append((place, error))
            }
        }
        if let first = unread.first {
            let others = unread.count > 1 ? " and \(unread.count - 1) more partitions" : ""
            found.append(
                .warning(
                    in: Self.positions, "\(first.place)\(others) could not be read: \(first.error)",
                    advice: "check the leaders"))
        }
        let hasFindings = !found.isEmpty
        // Transactions of some producers last for minutes, so that an open one alone is no trouble.
        for open in try await openTransactions(at: next, bounds, kafka) { found.append(.ok(in: Self.positions, open)) }
        if !hasFindings {
            found.append(.ok(in: Self.positions, "\(places.count) partitions can be read at their positions"))
        }
        return found
    }

    /// Describes the partitions whose next message is behind the start of an open transaction.
    private func openTransactions(
        at next: [TopicPartition: Int64], _ bounds: [TopicPartition: Range<Int64>], _ kafka: KafkaConfiguration
    ) async throws(KafkaError) -> [String] {
        var kafka = kafka
        kafka.properties["isolation.level"] = "read_uncommitted"
        let stopped = next.filter { $0.value == bounds[$0.key]?.upperBound }.keys.sorted()
        let all = try await KafkaAdmin(configuration: kafka, timeout: timeLimit / 3, logger: logger).bounds(of: stopped)
        return stopped.compactMap { place in
            guard let end = all[place]?.upperBound, let next = next[place], end > next else { return nil }
            return "\(place): \(end - next) messages from offset \(next) on wait for an open transaction"
        }
    }
}
