internal import CRdKafka

/// Owns a librdkafka client. Its functions may be called from any thread until `destroy`, which the owner calls once,
/// on its poll thread, as the last thing that it does with the client.
///
/// `@unchecked Sendable`: the pointer never changes, and what it points to does its own locking.
@safe final class ClientHandle: @unchecked Sendable {
    enum Role {
        case consumer
        case producer
        /// Carries an in-process cluster and connects nowhere itself.
        case embedded
    }

    let pointer: OpaquePointer

    /// Makes the client; the callbacks named in the properties must outlive it.
    init(_ role: Role, properties: consuming ClientProperties, operation: String) throws(KafkaError) {
        do throws(ClientProperties.InvalidProperties) {
            unsafe pointer = try properties.makeClient(role == .consumer ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER)
        } catch {
            throw KafkaError(
                code: .invalidConfiguration, message: error.reason, isRetriable: false,
                context: KafkaError.Context(operation: operation))
        }
    }

    /// Frees the client. Blocks until its own threads have ended.
    func destroy(leavingGroup: Bool = true) {
        if leavingGroup {
            unsafe rd_kafka_destroy(pointer)
        } else {
            unsafe rd_kafka_destroy_flags(pointer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE)
        }
    }
}
