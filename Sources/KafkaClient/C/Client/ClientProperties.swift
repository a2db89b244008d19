// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka

/// Properties of librdkafka's clients: this module's defaults, then the caller's properties, then the fixed ones.
extension ClientHandle {
    /// Sets the properties of a client, and returns the problem with each invalid one.
    static func set(
        _ configuration: KafkaConfiguration, for role: Role, defaults: [String: String],
        newer: [String: String], fixed: [String: String], on pointer: OpaquePointer
    ) -> [String] {
        var problems: [String] = []
        if configuration.bootstrapServers.isEmpty { problems.append("bootstrap.servers: must not be empty") }
        var effective = defaults
        for (name, value) in configuration.properties {
            let canonical = aliases[name] ?? name
            if let wanted = fixed[canonical], !isSame(wanted, value) {
                problems.append("\(name): is fixed to \(wanted) here")
            } else if isForeign(canonical, to: role) {
                // Checked on a scratch configuration.
                let scratch = unsafe rd_kafka_conf_new()
                if let problem = unsafe set(name, to: value, on: scratch) { problems.append(problem) }
                unsafe rd_kafka_conf_destroy(scratch)
            } else {
                effective[canonical] = value
            }
        }
        effective.merge(fixed) { _, fixed in fixed }
        for (name, value) in effective.sorted(by: { $0.key < $1.key })
        where !(name == "bootstrap.servers" && value.isEmpty) {
            if let problem = unsafe set(name, to: value, on: pointer) { problems.append(problem) }
        }
        for (name, value) in newer where effective[name] == nil { _ = unsafe set(name, to: value, on: pointer) }
        return problems
    }

    /// Sets a property and returns the problem with it, if any.
    private static func set(_ name: String, to value: String, on pointer: OpaquePointer?) -> String? {
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

    private static func isForeign(_ name: String, to role: Role) -> Bool {
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
