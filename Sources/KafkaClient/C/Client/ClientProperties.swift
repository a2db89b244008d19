internal import CRdKafka
internal import Logging

/// A librdkafka configuration: this module's defaults, then the caller's properties, then the fixed ones. Reports all
/// invalid properties together.
@safe struct ClientProperties: ~Copyable {
    enum Logs {
        /// Logs come through the client's queue, on the thread that polls it.
        case polled
        /// Logs come from librdkafka's own threads: for clients that are not polled.
        case direct
    }

    let redact: SecretRedaction
    /// Nil after `rd_kafka_new` has taken it over.
    private var pointer: OpaquePointer?

    /// - Parameters:
    ///   - defaults: properties that the caller may override.
    ///   - newer: defaults that older versions of librdkafka do not know and go without.
    ///   - fixed: properties that the caller must not set to other values.
    init(
        _ role: ClientHandle.Role, _ configuration: KafkaConfiguration, defaults: [String: String],
        newer: [String: String] = [:], fixed: [String: String], problems: [String] = [], logs: Logs,
        callbacks: ClientCallbacks, operation: String
    ) throws(KafkaError) {
        let redact = SecretRedaction(configuration)
        let made: OpaquePointer = unsafe rd_kafka_conf_new()
        var problems = problems
        if configuration.bootstrapServers.isEmpty { problems.append("bootstrap.servers: must not be empty") }

        var fixed = fixed
        if role != .embedded { fixed["bootstrap.servers"] = configuration.bootstrapServers }
        fixed["log.queue"] = logs == .polled ? "true" : "false"
        var effective = defaults
        for (name, value) in configuration.properties {
            let canonical = Self.aliases[name] ?? name
            if let wanted = fixed[canonical], !Self.isSame(wanted, value) {
                problems.append("\(name): is fixed to \(wanted) here")
            } else if Self.isForeign(canonical, to: role) {
                // Checked on a scratch configuration.
                let scratch = unsafe rd_kafka_conf_new()
                if let problem = unsafe Self.set(name, value, on: scratch) { problems.append(problem) }
                unsafe rd_kafka_conf_destroy(scratch)
            } else {
                effective[canonical] = value
            }
        }
        effective.merge(fixed) { _, fixed in fixed }
        for (name, value) in effective.sorted(by: { $0.key < $1.key })
        where !(name == "bootstrap.servers" && value.isEmpty) {
            if let problem = unsafe Self.set(name, value, on: made) { problems.append(problem) }
        }

        for (name, value) in newer where effective[name] == nil { _ = unsafe Self.set(name, value, on: made) }

        guard problems.isEmpty else {
            unsafe rd_kafka_conf_destroy(made)
            throw KafkaError(
                code: .invalidConfiguration, message: redact(problems.sorted().joined(separator: "; ")),
                isRetriable: false, context: KafkaError.Context(operation: operation))
        }
        unsafe Self.install(callbacks, on: made)
        self.redact = redact
        unsafe pointer = made
    }

    deinit {
        if let pointer = unsafe pointer { unsafe rd_kafka_conf_destroy(pointer) }
    }

    /// Makes a client, which takes the pointer over.
    mutating func makeClient(_ type: rd_kafka_type_t) throws(InvalidProperties) -> OpaquePointer {
        let (client, text) = unsafe withErrorText { unsafe rd_kafka_new(type, pointer, $0, $1) }
        guard let client = unsafe client else { throw InvalidProperties(reason: redact(text)) }
        unsafe pointer = nil
        return unsafe client
    }

    /// A combination of properties that librdkafka refuses.
    struct InvalidProperties: Error {
        var reason: String
    }

    /// Sets a property and returns the problem with it, if any.
    private static func set(_ name: String, _ value: String, on pointer: OpaquePointer?) -> String? {
        let (result, text) = unsafe withErrorText { unsafe rd_kafka_conf_set(pointer, name, value, $0, $1) }
        switch result {
        case RD_KAFKA_CONF_OK:
            return nil
        case RD_KAFKA_CONF_UNKNOWN:
            return "\(name): librdkafka \(unsafe String(cString: rd_kafka_version_str())) has no such property"
        default:
            if KafkaConfiguration.isSecret(name) { return "\(name): the value is not allowed" }
            return "\(name): \(text)"
        }
    }

    private static func install(_ callbacks: ClientCallbacks, on pointer: OpaquePointer) {
        // Unretained: the client's owner keeps the callbacks alive.
        unsafe rd_kafka_conf_set_opaque(pointer, Unmanaged.passUnretained(callbacks).toOpaque())
        unsafe rd_kafka_conf_set_log_cb(pointer) { client, level, facility, text in
            guard let client = unsafe client else { return }
            let callbacks = unsafe ClientCallbacks.from(rd_kafka_opaque(client))
            let facility = unsafe facility.map { unsafe String(cString: $0) } ?? ""
            let text = unsafe text.map { unsafe String(cString: $0) } ?? ""
            callbacks?.logged(level: level, facility: facility, text: text)
        }
        #if DEBUG
        if !callbacks.routes.isEmpty { unsafe ConnectRoutes.install(on: pointer) }
        #endif
        unsafe rd_kafka_conf_set_error_cb(pointer) { _, number, reason, opaque in
            let reason = unsafe reason.map { unsafe String(cString: $0) } ?? ""
            unsafe ClientCallbacks.from(opaque)?.owner?.errorRaised(
                rd_kafka_resp_err_t(rawValue: number), reason: reason)
        }
    }

    /// Adds a consumer's callback.
    borrowing func installCommitReports() {
        // Without a callback librdkafka warns of each failed commit, although only lag tools use them.
        unsafe rd_kafka_conf_set_offset_commit_cb(pointer) { _, response, _, opaque in
            guard response != RD_KAFKA_RESP_ERR_NO_ERROR, response != RD_KAFKA_RESP_ERR__NO_OFFSET else { return }
            unsafe ClientCallbacks.from(opaque)?.logger.debug(
                "offsets were not committed (for lag tools only)",
                metadata: ["code": "\(KafkaError.Code(response))"])
        }
    }

    /// Adds a producer's callback.
    borrowing func installDeliveryReports() {
        unsafe rd_kafka_conf_set_dr_msg_cb(pointer) { _, message, opaque in
            guard let message = unsafe message else { return }
            unsafe ClientCallbacks.from(opaque)?.owner?.delivered(message)
        }
    }
}

extension ClientProperties {
    private static let aliases = [
        "metadata.broker.list": "bootstrap.servers", "request.required.acks": "acks",
        "delivery.timeout.ms": "message.timeout.ms", "queue.buffering.max.ms": "linger.ms",
        "max.in.flight": "max.in.flight.requests.per.connection", "retries": "message.send.max.retries",
        "compression.type": "compression.codec",
    ]

    /// Compares values, each of which librdkafka accepts in several spellings.
    private static func isSame(_ wanted: String, _ value: String) -> Bool {
        func canonical(_ value: String) -> String {
            switch value.lowercased() {
            case "true", "1", "t": "true"
            case "false", "0", "f": "false"
            case "all", "-1": "all"
            default: value
            }
        }
        return canonical(wanted) == canonical(value)
    }

    private static func isForeign(_ name: String, to role: ClientHandle.Role) -> Bool {
        switch role {
        case .consumer: producerOnly.contains(name)
        case .producer, .embedded: consumerOnly.contains(name)
        }
    }

    /// Properties marked with C in librdkafka's CONFIGURATION.md, about which a producer would warn.
    private static let consumerOnly: Set<String> = [
        "group.id", "group.instance.id", "partition.assignment.strategy", "session.timeout.ms",
        "heartbeat.interval.ms", "group.protocol", "group.protocol.type", "group.remote.assignor",
        "coordinator.query.interval.ms", "max.poll.interval.ms", "enable.auto.commit", "auto.commit.interval.ms",
        "enable.auto.offset.store", "queued.min.messages", "queued.max.messages.kbytes", "fetch.wait.max.ms",
        "fetch.queue.backoff.ms", "fetch.message.max.bytes", "max.partition.fetch.bytes", "fetch.max.bytes",
        "fetch.min.bytes", "fetch.error.backoff.ms", "isolation.level", "enable.partition.eof", "check.crcs",
        "allow.auto.create.topics", "client.rack", "auto.offset.reset",
    ]

    /// Properties marked with P, about which a consumer would warn. The first is marked with both, but would make a
    /// consumer's requests wait for its fetches.
    private static let producerOnly: Set<String> = [
        "max.in.flight.requests.per.connection",
        "transactional.id", "transaction.timeout.ms", "enable.idempotence", "enable.gapless.guarantee",
        "queue.buffering.max.messages", "queue.buffering.max.kbytes", "linger.ms", "message.send.max.retries",
        "queue.buffering.backpressure.threshold", "compression.codec", "batch.num.messages", "batch.size",
        "delivery.report.only.error", "sticky.partitioning.linger.ms", "acks", "request.timeout.ms",
        "message.timeout.ms", "queuing.strategy", "partitioner", "compression.level", "retry.backoff.ms",
        "retry.backoff.max.ms",
    ]
}

/// Lends librdkafka a buffer for an error's text and returns the call's result with the text.
func withErrorText<Result>(
    _ call: (UnsafeMutablePointer<CChar>?, Int) -> Result
) -> (result: Result, text: String) {
    var buffer = [CChar](repeating: 0, count: 512)
    let result = unsafe buffer.withUnsafeMutableBufferPointer { unsafe call($0.baseAddress, $0.count) }
    return (result, String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
}
