// SPDX-License-Identifier: Apache-2.0

import FreshetService
import KafkaClient
import Synchronization
import WidgetModel

/// Reads the topic of timelines as one of its consumers would: of each timeline, the message with the highest revision
/// counts.
final class OutputWatch: Sendable {
    /// Highest revision of a timeline, and the hash of the entries as they are in its message; nil where it is not
    /// computed.
    typealias Latest = (revision: Int64, hash: ContentHash?)

    private let isArmed = Atomic(false)
    /// Number of counted messages, and in `next` the offset after the last message that was read.
    private let state: Mutex<(latest: [TimelineID: Latest], messages: Int, next: [TopicPartition: Int64])>
    private let starts: [TopicPartition: KafkaOffset]
    private let hashesEntries: Bool

    /// - Parameters:
    ///   - starts: where reading begins; the topic's beginning for partitions that are left out.
    ///   - hashesEntries: whether the content of each message is hashed.
    init(from starts: [TopicPartition: Int64] = [:], hashesEntries: Bool = false) {
        state = Mutex(([:], 0, starts))
        self.starts = starts.mapValues { .at($0) }
        self.hashesEntries = hashesEntries
    }

    /// Starts to count messages; earlier ones are only read.
    func arm() {
        isArmed.store(true, ordering: .releasing)
    }

    /// Number of counted messages, tombstones among them.
    var messages: Int { state.withLock { $0.messages } }
    var latest: [TimelineID: Latest] { state.withLock { $0.latest } }

    /// Waits until everything before these offsets was read, or no message has come for a while.
    ///
    /// - Returns: whether it was read.
    func reach(_ ends: [TopicPartition: Int64]) async throws -> Bool {
        var stall = Stall<Int>()
        while true {
            let (isReached, messages) = state.withLock { state in
                (ends.allSatisfy { $0.value == 0 || (state.next[$0.key] ?? 0) >= $0.value }, state.messages)
            }
            if isReached { return true }
            if stall.update(messages) { return false }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Reads until it is cancelled.
    ///
    /// - Parameter onPublished: called for each timeline with a new revision; it must be quick.
    func run(
        _ consumer: KafkaConsumer, topic: String, onPublished: (@Sendable (TimelineID) -> Void)? = nil
    ) async throws {
        try await consumer.read([topic], at: starts) { [self] batch in
            for id in read(batch) { onPublished?(id) }
        }
    }

    private func read(_ batch: KafkaBatch) -> [TimelineID] {
        let isArmed = isArmed.load(ordering: .acquiring)
        return state.withLock { state in
            var published: [TimelineID] = []
            for index in 0..<batch.count {
                state.next[batch.topicPartition(index)] = batch.records[index].offset + 1
                guard isArmed else { continue }
                state.messages += 1
                guard let key = batch.key(index), let id = TimelineID(bytes: batch.bytes[key]),
                    let header = batch.header(index, named: "freshet-revision"),
                    let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self))
                else { continue }
                guard state.latest[id].map({ $0.revision < revision }) ?? true else { continue }
                let entries = hashesEntries ? batch.value(index).map { batch.bytes[$0] } : nil
                state.latest[id] = (revision, entries.flatMap(Self.hash(ofEntriesIn:)))
                published.append(id)
            }
            return published
        }
    }

    private static let entries = Array("\"entries\":[".utf8)
    private static let end = Array("],\"policy\":".utf8)

    /// The hash that PostgreSQL has of the same entries: of the canonical form up to their end.
    static func hash(ofEntriesIn value: ArraySlice<UInt8>) -> ContentHash? {
        guard let start = value.firstRange(of: entries)?.lowerBound, let end = value[start...].ranges(of: end).last
        else { return nil }
        return ContentHash(ofContent: [UInt8(ascii: "{")] + value[start..<end.lowerBound])
    }
}

extension LoadTestEnvironment {
    /// Reads the topic of timelines from one place to another.
    ///
    /// - Throws: ``CommandFailure`` when its end cannot be reached.
    func readOutput(
        from starts: [TopicPartition: Int64], to ends: [TopicPartition: Int64]
    ) async throws -> OutputWatch {
        let watch = OutputWatch(from: starts, hashesEntries: true)
        watch.arm()
        let consumer = try outputConsumer()
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask { [topic = settings.topics.timelines] in
                try await watch.run(consumer, topic: topic)
                return false
            }
            group.addTask { try await watch.reach(ends) }
            guard try await group.next() == true else {
                throw CommandFailure(.unavailable, "the output topic could not be read to its end")
            }
            group.cancelAll()
            while try await group.next() != nil {}
        }
        return watch
    }
}
