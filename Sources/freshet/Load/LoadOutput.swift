import KafkaClient
import Logging
import WidgetModel

/// What stands on the topic of timelines, read by a consumer of the tool's own: for each timeline the message with the
/// highest revision, as consumers of the topic take it.
struct LoadOutput: Sendable {
    struct Latest: Sendable, Equatable {
        var revision: Int64
        /// Of the entries, as they are in the message.
        var hash: ContentHash
    }

    private(set) var latest: [TimelineID: Latest] = [:]
    /// Messages read, tombstones among them.
    private(set) var messages = 0
    /// Messages that are not what they should be.
    private(set) var unreadable = 0
    /// Messages that the log did not have any more.
    private(set) var gone = 0

    /// How long nothing may come before it is given up.
    private static let patience = Duration.seconds(30)

    /// Where the topic ends now.
    static func ends(of topic: String, kafka: KafkaConfiguration, logger: Logger) async throws -> [TopicPartition:
        Int64]
    {
        let admin = KafkaAdmin(configuration: kafka, logger: logger)
        let partitions = try await admin.describe(topics: [topic]).flatMap(\.partitions)
        return try await admin.bounds(of: partitions.map { TopicPartition(topic: topic, partition: $0.id) })
            .mapValues(\.end)
    }

    /// How many messages of the topic the log has dropped by now, of those from the given places on.
    static func dropped(
        of topic: String, from starts: [TopicPartition: Int64], kafka: KafkaConfiguration, logger: Logger
    ) async throws -> Int {
        let bounds = try await KafkaAdmin(configuration: kafka, logger: logger).bounds(of: Array(starts.keys))
        return starts.reduce(0) { $0 + Int(max(0, (bounds[$1.key]?.earliest ?? 0) - $1.value)) }
    }

    /// Reads a topic from one place to another.
    static func read(
        from starts: [TopicPartition: Int64], to ends: [TopicPartition: Int64], kafka: KafkaConfiguration,
        group: String, logger: Logger
    ) async throws -> LoadOutput {
        var output = LoadOutput()
        let open = ends.filter { $0.value > starts[$0.key] ?? 0 }
        guard let topic = open.keys.first?.topic else { return output }
        let consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(kafka: kafka, group: group, topics: [topic]), logger: logger)
        do {
            output = try await withThrowingTaskGroup(of: LoadOutput?.self) { group in
                group.addTask { try await read(consumer, from: starts, to: open) }
                group.addTask {
                    // It ends by itself, so this is for a broker that is gone.
                    var before: Int64 = -1
                    while consumer.counters.messages != before {
                        before = consumer.counters.messages
                        try await Task.sleep(for: patience)
                    }
                    return nil
                }
                guard let first = try await group.next(), let read = first else {
                    throw CommandFailure(.unavailable, "the output topic could not be read to its end")
                }
                group.cancelAll()
                return read
            }
        } catch {
            await consumer.shutdown()
            throw error
        }
        await consumer.shutdown()
        return output
    }

    private static func read(
        _ consumer: KafkaConsumer, from starts: [TopicPartition: Int64], to ends: [TopicPartition: Int64]
    ) async throws -> LoadOutput {
        var output = LoadOutput()
        var open = ends
        for try await event in consumer.events {
            switch event {
            case .assigned(let assignment):
                let from = assignment.partitions.map { ($0, KafkaOffset.at(starts[$0] ?? 0)) }
                assignment.start(at: Dictionary(uniqueKeysWithValues: from))
            case .batch(let batch):
                for index in 0..<batch.count {
                    let partition = batch.topicPartition(index)
                    guard let end = ends[partition], batch.records[index].offset < end else { continue }
                    output.add(batch, index)
                    if batch.records[index].offset == end - 1 { open[partition] = nil }
                }
            case .revoked(let revocation): revocation.acknowledge()
            case .offsetOutOfRange(let partition, let offset):
                throw CommandFailure(
                    .failure, "the broker has dropped messages of \(partition) at \(offset) before they were read")
            case .error: break
            }
            if open.isEmpty { break }
        }
        return output
    }

    private mutating func add(_ batch: KafkaBatch, _ index: Int) {
        messages += 1
        guard let key = batch.key(index), let id = TimelineID(bytes: batch.bytes[key]),
            let header = batch.header(index, named: "freshet-revision"),
            let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self)),
            let value = batch.value(index), let hash = Self.hash(ofEntriesIn: batch.bytes[value])
        else {
            unreadable += 1
            return
        }
        if let known = latest[id], known.revision > revision { return }
        latest[id] = Latest(revision: revision, hash: hash)
    }

    private static let entries = Array("\"entries\":[".utf8)
    private static let end = Array("],\"policy\":".utf8)

    /// The hash that PostgreSQL has of the same entries: of the canonical form up to their end.
    static func hash(ofEntriesIn value: ArraySlice<UInt8>) -> ContentHash? {
        guard let start = value.firstRange(of: entries)?.lowerBound,
            let end = value[start...].lastIndex(of: end)
        else { return nil }
        return ContentHash(of: [UInt8(ascii: "{")] + value[start..<end])
    }
}

extension ArraySlice<UInt8> {
    fileprivate func lastIndex(of text: [UInt8]) -> Int? {
        var index = endIndex - text.count
        while index >= startIndex {
            if self[index] == text[0], self[index..<(index + text.count)].elementsEqual(text) { return index }
            index -= 1
        }
        return nil
    }
}
