package import Logging
internal import Synchronization

/// A member of a consumer group, with positions that its receiver keeps.
///
/// One thread polls librdkafka and hands over batches, assignments and revocations in order, over a bounded buffer:
/// when the receiver is slow, fetching pauses, but the thread goes on serving the group. Kafka's own committed offsets
/// are never read. An instance that is dropped without `shutdown` leaves the group too.
package final class KafkaConsumer: Sendable {
    /// Events in order. One task iterates at a time.
    package let events: KafkaConsumerEvents

    private let loop: ConsumerLoop

    /// Joins the group; the first assignment comes as an event. Connecting goes on in the background and does not fail
    /// here.
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

    /// Stops fetching these partitions until `resume`. Buffered messages are still delivered.
    package func pause(_ partitions: [TopicPartition]) {
        loop.mailbox.post(.pause(partitions))
    }

    package func resume(_ partitions: [TopicPartition]) {
        loop.mailbox.post(.resume(partitions))
    }

    /// Moves the positions, and drops what was buffered of these partitions: every later batch is from the new
    /// positions on. A partition that waits for its `start` is started.
    /// - Throws: `notAssigned` if one of the partitions is not assigned (any more); the others have been moved.
    package func seek(_ offsets: [TopicPartition: KafkaOffset]) async throws(KafkaError) {
        guard !offsets.isEmpty else { return }
        let error = await withCheckedContinuation { continuation in
            if !loop.mailbox.post(.seek(offsets, continuation)) { continuation.resume(returning: .shutDown("seek")) }
        }
        if let error { throw error }
    }

    /// Tells Kafka the positions, for lag tools only: asynchronous, best effort, silent when it fails, and left out
    /// around a rebalance, when librdkafka 2.0.2 would lose the assignment over it (librdkafka#4059).
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

    /// Whether the group has counted this consumer in at its last rebalance, with partitions or without.
    package var isMember: Bool { loop.pulse.withLock { $0.isMember } }

    /// How long the poll thread has not come round: fractions of a second, whatever Kafka and the receiver do, and at
    /// most the revocation timeout and a few seconds more. Nil when it has ended.
    package var silence: Duration? {
        loop.pulse.withLock { pulse in pulse.lastTurn.map { $0.duration(to: .now) } }
    }

    /// Counts so far.
    package var counters: KafkaConsumerCounters {
        var counters = loop.counters.withLock { $0 }
        (counters.messages, counters.batches) = loop.buffer.counts
        return counters
    }

    /// Whether a task iterates over the events. A revocation waits only for a receiver that is there.
    package var hasReceiver: Bool { loop.buffer.hasReceiver }

    /// Leaves the group and closes. The partitions are revoked first, in the events, like in a rebalance; the events
    /// end behind that. Takes at most the revocation timeout and 10 s more. Returns when all is released; calling it
    /// again only waits.
    package func shutdown() async {
        loop.mailbox.post(.stop(.shutdown))
        await loop.completion.wait()
    }

    /// Ends at once without telling the group, as a killed process does: the group notices by the session timeout. What
    /// is buffered is dropped. For tests of crashes.
    package func abandon() async {
        loop.mailbox.post(.stop(.abandon))
        await loop.completion.wait()
    }

    /// Raises a fatal error, as for instance a fenced static member gets it. For tests.
    package func raiseFatalError() {
        loop.mailbox.post(.raiseFatalError)
    }
}
