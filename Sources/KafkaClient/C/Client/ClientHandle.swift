internal import CRdKafka
internal import Dispatch
internal import Logging

/// Owns a librdkafka client. Any thread may call its functions until the owner calls `destroy`, once, as the last call
/// on its poll thread.
///
/// `@unchecked Sendable`: the members never change, and librdkafka does its own locking.
@safe final class ClientHandle: @unchecked Sendable {
    enum Role {
        case consumer
        case producer
        /// Carries an in-process cluster and makes no connections.
        case embedded
    }

    let pointer: OpaquePointer
    /// Used by librdkafka as long as the client exists.
    let callbacks: ClientCallbacks

    /// Makes the client.
    ///
    /// - Parameters:
    ///   - defaults: properties that the caller may override.
    ///   - newer: defaults that older versions of librdkafka do not know and go without.
    ///   - fixed: properties that the caller must not set to other values.
    ///   - problems: invalid values that the caller has found.
    ///   - pollsLogs: whether logs come through the client's queue, on the thread that polls it, instead of from
    ///     librdkafka's own threads.
    /// - Throws: `invalidConfiguration` with every invalid property.
    init(
        _ role: Role, _ configuration: KafkaConfiguration, defaults: [String: String], newer: [String: String] = [:],
        fixed: [String: String], problems: [String] = [], pollsLogs: Bool = false, logger: Logger, operation: String
    ) throws(KafkaError) {
        callbacks = ClientCallbacks(logger: logger, configuration: configuration)
        let properties: OpaquePointer = unsafe rd_kafka_conf_new()
        var fixed = fixed
        if role != .embedded { fixed["bootstrap.servers"] = configuration.bootstrapServers }
        fixed["log.queue"] = pollsLogs ? "true" : "false"
        var problems =
            unsafe problems
            + ClientProperties.set(
                configuration, for: role, defaults: defaults, newer: newer, fixed: fixed, on: properties)
        if problems.isEmpty {
            unsafe callbacks.install(on: properties, for: role)
            let type = role == .consumer ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER
            let (client, text) = unsafe withErrorText { unsafe rd_kafka_new(type, properties, $0, $1) }
            if let client = unsafe client {
                // It has taken the properties over.
                unsafe pointer = client
                return
            }
            // A combination of properties that librdkafka refuses.
            problems = [text]
        }
        unsafe rd_kafka_conf_destroy(properties)
        throw KafkaError(
            code: .invalidConfiguration, message: callbacks.redact(problems.sorted().joined(separator: "; ")),
            isRetriable: false, context: KafkaError.Context(operation: operation))
    }

    /// Frees the client. Waits a bounded time, since librdkafka may hang here (issues 3143 and 5434; in 2.0.2 when a
    /// topic with assigned partitions is deleted). An abandoned client leaks its memory and a thread.
    ///
    /// - Returns: false if the client was abandoned.
    @discardableResult
    func destroy(closing: Bool = true, atMost limit: Duration = .seconds(10)) -> Bool {
        let ended = DispatchSemaphore(value: 0)
        let end: @Sendable () -> Void = {
            withExtendedLifetime(self) {
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
            callbacks.logger.error(
                "librdkafka does not free a client; it is given up", metadata: ["waited": "\(milliseconds) ms"])
            return false
        }
        return true
    }
}
