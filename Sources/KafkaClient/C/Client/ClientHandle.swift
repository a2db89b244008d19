internal import CRdKafka
internal import Dispatch
internal import Logging

/// Owns a librdkafka client. Any thread may call its functions until the owner calls `destroy`, once, as the last call
/// on its poll thread.
///
/// `@unchecked Sendable`: the pointer never changes, and librdkafka does its own locking.
@safe final class ClientHandle: @unchecked Sendable {
    enum Role {
        case consumer
        case producer
        /// Carries an in-process cluster and makes no connections.
        case embedded
    }

    let pointer: OpaquePointer

    /// Makes the client. The callbacks named in the properties must outlive it.
    init(_ role: Role, properties: consuming ClientProperties, operation: String) throws(KafkaError) {
        do throws(ClientProperties.InvalidProperties) {
            unsafe pointer = try properties.makeClient(role == .consumer ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER)
        } catch {
            throw KafkaError(
                code: .invalidConfiguration, message: error.reason, isRetriable: false,
                context: KafkaError.Context(operation: operation))
        }
    }

    /// Frees the client. Waits a bounded time, since librdkafka may hang here (issues 3143 and 5434; in 2.0.2 when a
    /// topic with assigned partitions is deleted). An abandoned client leaks its memory and a thread.
    ///
    /// - Parameter callbacks: kept alive as long as the client.
    /// - Returns: false if the client was abandoned.
    @discardableResult
    func destroy(
        closing: Bool = true, keeping callbacks: ClientCallbacks? = nil, atMost limit: Duration = .seconds(10)
    ) -> Bool {
        let ended = DispatchSemaphore(value: 0)
        let end: @Sendable () -> Void = {
            withExtendedLifetime(callbacks) {
                unsafe rd_kafka_destroy_flags(
                    self.pointer, closing ? 0 : RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE)
            }
            ended.signal()
        }
        do {
            try PollThread.run("kafka-destroy", end)
        } catch {
            end()
        }
        let milliseconds = Int(limit / .milliseconds(1))
        guard ended.wait(timeout: .now() + .milliseconds(milliseconds)) == .success else {
            callbacks?.logger.error(
                "librdkafka does not free a client; it is given up", metadata: ["waited": "\(milliseconds) ms"])
            return false
        }
        return true
    }
}
