package import Logging
internal import Synchronization

/// Reads partitions that its owner assigns, at positions that its owner keeps.
///
/// One thread polls librdkafka and hands over batches in order, over a bounded buffer: when the receiver is slow, fetching
/// pauses. No consumer group is joined, and committed offsets are never read.
package final class KafkaConsumer: Sendable {
    /// Events in order. One task iterates at a time.
    package let events: KafkaConsumerEvents

    private let loop: ConsumerLoop

    /// Connecting goes on in the background and does not fail here.
    /// - Throws: `invalidConfiguration` with every property that is wrong.
    package init(configuration: KafkaConsumerConfiguration, logger: Logger) throws(KafkaError) {
        loop = try ConsumerLoop(configuration: configuration, logger: logger)
        events = KafkaConsumerEvents(buffer: loop.buffer)
        let loop = loop
        do {
            try PollThread.run("kafka-consumer") { loop.run() }
        } catch {
            loop.discard()
            throw error
        }
    }

    deinit { loop.mailbox.post(.stop(.shutdown)) }

    /// Fetches partitions from these offsets on, besides those that are fetched already; one of those goes on there. Every later
    /// batch has only messages from the new positions on.
    package func assign(_ offsets: [TopicPartition: KafkaOffset]) async {
        guard !offsets.isEmpty else { return }
        await withCheckedContinuation { continuation in
            if !loop.mailbox.post(.assign(offsets, continuation)) { continuation.resume() }
        }
    }

    /// Fetches all partitions that topics have now.
    ///
    /// - Parameters:
    ///   - offsets: where to start; partitions that are not named start at `others`.
    /// - Returns: the partitions.
    @discardableResult
    package func assignAll(
        of topics: [String], at offsets: [TopicPartition: KafkaOffset] = [:], others: KafkaOffset = .earliest
    ) async throws(KafkaError) -> [TopicPartition] {
        let admin = KafkaAdmin(configuration: loop.configuration.kafka, logger: loop.logger)
        let places = try await admin.describe(topics: topics).flatMap(\.places)
        await assign(Dictionary(places.map { ($0, offsets[$0] ?? others) }) { $1 })
        return places
    }

    /// Stops fetching partitions. No later batch has messages of them.
    package func unassign(_ partitions: [TopicPartition]) async {
        guard !partitions.isEmpty else { return }
        await withCheckedContinuation { continuation in
            if !loop.mailbox.post(.unassign(partitions, continuation)) { continuation.resume() }
        }
    }

    /// Puts ``KafkaConsumerEvent/interrupted`` behind the events that wait, unless one is among them.
    package func interrupt() { loop.buffer.push(.interrupted) }

    /// Tells Kafka the positions, for lag tools only: asynchronous, best effort, and silent when it fails.
    package func commit(_ nextOffsets: [TopicPartition: Int64]) {
        loop.mailbox.commit(nextOffsets)
    }

    /// Per fetched partition, how many messages are behind the last one that was put into a batch; from what librdkafka
    /// saw in its latest fetch, without asking a broker. `nil` after the shutdown.
    package func lag() async -> [TopicPartition: Int64]? {
        await withCheckedContinuation { continuation in
            if !loop.mailbox.post(.lag(continuation)) { continuation.resume(returning: nil) }
        }
    }

    /// The partitions of each topic, or its error; asked with a connection of its own.
    package func partitions(
        of topics: [String], timeout: Duration
    ) async throws(KafkaError) -> [String: Result<[TopicPartition], KafkaError>] {
        try await KafkaAdmin(configuration: loop.configuration.kafka, timeout: timeout, logger: loop.logger)
            .partitions(of: topics)
    }

    /// Bounds of a partition's log, asked with a connection and a thread of its own.
    package func bounds(
        of partition: TopicPartition, timeout: Duration = .seconds(5)
    ) async throws(KafkaError) -> KafkaLogBounds {
        try await KafkaAdmin(configuration: loop.configuration.kafka, timeout: timeout, logger: loop.logger)
            .bounds(of: partition)
    }

    /// Whether the partition can be read: asked with a connection of its own, by reading from the beginning of the log.
    package func canRead(_ partition: TopicPartition) async -> Bool {
        let reader = KafkaReader(configuration: loop.configuration.kafka, logger: loop.logger)
        do throws(KafkaError) {
            _ = try await reader.message(topic: partition.topic, partition: partition.partition, offset: 0)
            return true
        } catch {
            return false
        }
    }

    /// How long the poll thread has not come round: fractions of a second, whatever Kafka and the receiver do, and at most a
    /// few seconds. Nil when it has ended.
    package var silence: Duration? {
        loop.lastTurn.withLock { turn in turn.map { $0.duration(to: .now) } }
    }

    /// Counts so far.
    package var counters: KafkaConsumerCounters {
        var counters = loop.counters.withLock { $0 }
        (counters.messages, counters.batches) = loop.buffer.counts
        return counters
    }

    /// Closes. The events end behind those that wait. Takes at most some 10 s. Returns when all is released; calling it again
    /// only waits.
    package func shutdown() async {
        loop.mailbox.post(.stop(.shutdown))
        await loop.completion.wait()
    }

    /// Ends at once, as a killed process does; what is buffered is dropped. For tests of crashes.
    package func abandon() async {
        loop.mailbox.post(.stop(.abandon))
        await loop.completion.wait()
    }

    /// Raises a fatal error. For tests.
    package func raiseFatalError() {
        loop.mailbox.post(.raiseFatalError)
    }
}
