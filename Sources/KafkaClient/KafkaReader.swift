package import Logging

/// Reads single messages that are known by their place. Each call connects anew and works on a thread of its own; it
/// never blocks the caller's thread, joins no group and commits nothing.
package struct KafkaReader: Sendable {
    private let configuration: KafkaConfiguration
    private let logger: Logger

    package init(configuration: KafkaConfiguration, logger: Logger) {
        self.configuration = configuration
        self.logger = logger
    }

    /// The message at an offset, as a batch of one; nil when the log has none there (any more, or yet).
    ///
    /// - Parameter timeout: of the whole call, connecting included.
    /// - Throws: `timedOut` when no broker has answered by then; `unknownTopicOrPartition`.
    package func message(
        topic: String, partition: Int32, offset: Int64, timeout: Duration = .seconds(3)
    ) async throws(KafkaError) -> KafkaBatch? {
        let place = TopicPartition(topic: topic, partition: partition)
        let configuration = configuration
        let logger = logger
        return try await PollThread.perform("kafka-reader") { answer in
            do throws(KafkaError) {
                let reader = try MessageReader(configuration, logger: logger)
                // Answered before the client is closed, which takes a moment.
                answer(reader.read(place, at: offset, timeout: timeout))
            } catch {
                answer(.failure(error))
            }
        }
    }
}
