package import Logging

/// Reads messages by their offsets. Each call makes a connection and a thread of its own, joins no group and commits
/// nothing.
package struct KafkaReader: Sendable {
    private let configuration: KafkaConfiguration
    private let logger: Logger

    package init(configuration: KafkaConfiguration, logger: Logger) {
        (self.configuration, self.logger) = (configuration, logger)
    }

    /// The message at an offset, as a batch of one; nil if the log has none there.
    ///
    /// - Parameter timeout: time limit of the whole call.
    /// - Throws: `timedOut` without an answer by then; `unknownTopicOrPartition`.
    package func message(
        topic: String, partition: Int32, offset: Int64, timeout: Duration = .seconds(3)
    ) async throws(KafkaError) -> KafkaBatch? {
        try await read(
            TopicPartition(topic: topic, partition: partition), offset...offset, fetchBytes: 65_536, timeout: timeout)
    }

    /// The messages of a partition at these offsets, as one batch; nil if the log has none there.
    ///
    /// - Parameter timeout: time limit of the wait for each message.
    /// - Throws: as ``message(topic:partition:offset:timeout:)``.
    package func messages(
        of partition: TopicPartition, at offsets: ClosedRange<Int64>, timeout: Duration = .seconds(30)
    ) async throws(KafkaError) -> KafkaBatch? {
        try await read(partition, offsets, fetchBytes: 1 << 20, timeout: timeout)
    }

    private func read(
        _ partition: TopicPartition, _ offsets: ClosedRange<Int64>, fetchBytes: Int, timeout: Duration
    ) async throws(KafkaError) -> KafkaBatch? {
        try await PollThread.perform("kafka-reader") { answer in
            do throws(KafkaError) {
                let reader = try MessageReader(
                    configuration, fetchBytes: fetchBytes, queuedMessages: min(offsets.count, 1_000), logger: logger)
                // Answers before the client is closed, which takes a moment.
                answer(reader.read(partition, at: offsets, timeout: timeout))
            } catch {
                answer(.failure(error))
            }
        }
    }
}
