// SPDX-License-Identifier: Apache-2.0

package import Logging
internal import Synchronization

/// Reads the partitions that its owner assigns, from positions that its owner keeps.
///
/// One thread polls librdkafka and hands over batches in order through a bounded buffer: while the receiver is slow,
/// fetching pauses. The consumer joins no group and never reads committed offsets.
package final class KafkaConsumer: Sendable {
    /// Events in order. One task iterates at a time.
    package let events: KafkaConsumerEvents

    private let loop: ConsumerLoop

    /// Starts connecting in the background.
    /// - Throws: `invalidConfiguration` with every invalid property.
    package init(configuration: KafkaConsumerConfiguration, logger: Logger) throws(KafkaError) {
        loop = try ConsumerLoop(configuration: configuration, logger: logger)
        events = loop.events
        let loop = loop
        do {
            try PollThread.run("kafka-consumer") { loop.run() }
        } catch {
            loop.discard()
            throw error
        }
    }

    deinit { loop.mailbox.post(.stop(.shutdown)) }

    /// Fetches partitions from these offsets on, in addition to those that are fetched; a partition among those is
    /// moved. Later batches have only messages from the new positions on.
    package func assign(_ offsets: [TopicPartition: KafkaOffset]) async {
        guard !offsets.isEmpty else { return }
        await withCheckedContinuation { continuation in
            if !loop.mailbox.post(.assign(offsets, continuation)) { continuation.resume() }
        }
    }

    /// Fetches all present partitions of topics.
    ///
    /// - Parameters:
    ///   - offsets: start offsets; other partitions start at `others`.
    /// - Returns: the partitions.
    @discardableResult
    package func assignAll(
        of topics: [String], at offsets: [TopicPartition: KafkaOffset] = [:], others: KafkaOffset = .earliest
    ) async throws(KafkaError) -> [TopicPartition] {
        let partitions = try await admin(timeout: .seconds(15)).describe(topics: topics).flatMap(\.places)
        await assign(Dictionary(partitions.map { ($0, offsets[$0] ?? others) }) { $1 })
        return partitions
    }

    /// Reads topics until the task is cancelled, and closes the consumer. Where messages were dropped before they were
    /// read, it logs that and goes on at the partition's oldest message.
    ///
    /// - Parameters:
    ///   - offsets: start offsets; other partitions start at their oldest message.
    ///   - receive: called with each batch; it must be quick.
    package func read(
        _ topics: [String], at offsets: [TopicPartition: KafkaOffset] = [:],
        _ receive: @Sendable (KafkaBatch) -> Void
    ) async throws {
        try await assignAll(of: topics, at: offsets)
        try await withTaskCancellationHandler {
            for try await event in events {
                switch event {
                case .batch(let batch): receive(batch)
                case .offsetOutOfRange(let partition, let offset):
                    loop.logger.error(
                        "messages were dropped before they were read",
                        metadata: ["partition": "\(partition)", "offset": "\(offset)"])
                    await assign([partition: .earliest])
                case .otherLog: break
                case .unreadable(let partition, let offset, let reason):
                    loop.logger.error(
                        "a batch cannot be read",
                        metadata: ["partition": "\(partition)", "offset": "\(offset)", "reason": "\(reason)"])
                case .error(let error): loop.logger.debug("consumer", metadata: ["error": "\(error)"])
                case .interrupted, .advanced: break
                }
            }
        } onCancel: {
            Task { await self.shutdown() }
        }
        await shutdown()
    }

    /// Stops fetching partitions. No later batch has messages of them.
    package func unassign(_ partitions: [TopicPartition]) async {
        guard !partitions.isEmpty else { return }
        await withCheckedContinuation { continuation in
            if !loop.mailbox.post(.unassign(partitions, continuation)) { continuation.resume() }
        }
    }

    /// Appends ``KafkaConsumerEvent/interrupted`` to the waiting events, unless one is among them.
    package func interrupt() { loop.events.push(.interrupted) }

    /// Commits positions for lag tools: asynchronous, best effort, silent on failure.
    package func commit(_ nextOffsets: [TopicPartition: Int64]) {
        loop.mailbox.commit(nextOffsets)
    }

    /// Messages behind the last batched one by fetched partition, as of librdkafka's latest fetch, without a request.
    /// `nil` after the shutdown.
    package func lag() async -> [TopicPartition: Int64]? {
        await withCheckedContinuation { continuation in
            if !loop.mailbox.post(.lag(continuation)) { continuation.resume(returning: nil) }
        }
    }

    /// Administration over connections of its own.
    package func admin(timeout: Duration) -> KafkaAdmin {
        KafkaAdmin(configuration: loop.configuration.kafka, timeout: timeout, logger: loop.logger)
    }

    /// Whether the partition can be read, by a read from the beginning of the log over a connection of its own.
    package func canRead(_ partition: TopicPartition) async -> Bool {
        let reader = KafkaReader(configuration: loop.configuration.kafka, logger: loop.logger)
        do throws(KafkaError) {
            _ = try await reader.message(topic: partition.topic, partition: partition.partition, offset: 0)
            return true
        } catch {
            return false
        }
    }

    /// Time since the poll thread's last turn: fractions of a second, whatever Kafka and the receiver do, and at most a
    /// few seconds. Nil when the thread has ended.
    package var silence: Duration? {
        loop.lastTurn.withLock { turn in turn.map { $0.duration(to: .now) } }
    }

    /// Counts so far.
    package var counters: KafkaConsumerCounters {
        var counters = loop.counters.withLock { $0 }
        (counters.messages, counters.batches) = loop.events.counts
        return counters
    }

    /// Closes the consumer within about 10 s and returns when everything is released. The events end behind the waiting
    /// ones.
    package func shutdown() async {
        loop.mailbox.post(.stop(.shutdown))
        await loop.completion.wait()
    }

    /// Ends like a killed process and drops the buffered messages. For tests of crashes.
    package func abandon() async {
        loop.mailbox.post(.stop(.abandon))
        await loop.completion.wait()
    }

    /// Raises a fatal error. For tests.
    package func raiseFatalError() {
        loop.mailbox.post(.raiseFatalError)
    }
}
