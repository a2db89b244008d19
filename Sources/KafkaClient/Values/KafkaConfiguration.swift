// SPDX-License-Identifier: Apache-2.0

/// Brokers of a Kafka cluster, and librdkafka properties (TLS, SASL, timeouts …).
///
/// Properties override this module's defaults. Properties on which its guarantees rest (`enable.idempotence`, `acks`,
/// `enable.auto.commit` and the like) cannot be set to other values: creating a client fails and names them.
package struct KafkaConfiguration: Sendable, CustomStringConvertible, CustomDebugStringConvertible {
    /// `host:port`, several separated by commas.
    package var bootstrapServers: String
    /// Properties by name, as in librdkafka's CONFIGURATION.md. Consumers ignore properties of producers and vice
    /// versa, so one dictionary can serve all clients.
    package var properties: [String: String]
    #if DEBUG
    /// Replacements of ports to connect to, for tests with a proxy in front of an embedded broker, which advertises its
    /// own port.
    package var routes: [UInt16: UInt16] = [:]
    #endif

    package init(bootstrapServers: String, properties: [String: String] = [:]) {
        self.bootstrapServers = bootstrapServers
        self.properties = properties
    }

    /// The properties by name with every secret replaced, safe to print.
    package var redactedProperties: [(name: String, value: String)] {
        properties.sorted { $0.key < $1.key }.map { name, value in
            (name, Self.isSecret(name) ? "<redacted>" : value)
        }
    }

    package var description: String {
        let properties = redactedProperties.map { "\($0.name)=\($0.value)" }.joined(separator: ", ")
        return "\(bootstrapServers)\(properties.isEmpty ? "" : " {\(properties)}")"
    }

    package var debugDescription: String { description }

    /// Whether a property's value must never be printed.
    package static func isSecret(_ property: String) -> Bool {
        let name = property.lowercased()
        return secretWords.contains { name.contains($0) }
    }

    /// `ssl.key.pem` is a private key in place; `sasl.oauthbearer.config` and `sasl.jaas.config` carry credentials.
    private static let secretWords = [
        "password", "secret", "token", "ssl.key.pem", "ssl_key", "oauthbearer.config", "jaas.config",
    ]
}

/// Brokers of a consumer and the size of its batches.
package struct KafkaConsumerConfiguration: Sendable {
    package var kafka: KafkaConfiguration
    /// The group under which offsets are committed for lag tools. It is never joined.
    package var group: String
    /// A batch has at most this many messages …
    package var maximumBatchMessages: Int
    /// … and stops growing once its keys, values and headers have this many bytes (one message may exceed it).
    package var maximumBatchBytes = 4 << 20
    /// Time for which a batch may grow while the receiver waits and messages keep coming. It goes out at once when it
    /// is full or no message comes.
    package var maximumWait = Duration.milliseconds(2)
    /// Full batches that may wait for the receiver.
    package var bufferedBatches = 2
    /// Time that a receiver may take for a batch before fetching is paused. A pause drops prefetched messages, so a
    /// receiver that is merely slower than Kafka must not cause one at each batch.
    package var pauseDelay = Duration.milliseconds(500)
    /// Pause before a batch that could not be read is tried again.
    package var unreadableRetry = Duration.seconds(10)
    /// Time without a message after which a batch counts as unreadable, if the log goes on behind it and its leader
    /// answers. librdkafka drops a batch with a broken record without an error.
    package var silenceLimit = Duration.seconds(30)

    package init(kafka: KafkaConfiguration, group: String, maximumBatchMessages: Int = 4096) {
        (self.kafka, self.group, self.maximumBatchMessages) = (kafka, group, maximumBatchMessages)
    }

    /// Invalid values, each with the name of its field.
    var problems: [String] {
        var problems: [String] = []
        if group.isEmpty { problems.append("group: must not be empty") }
        if maximumBatchMessages < 1 { problems.append("maximumBatchMessages: must be at least 1") }
        if maximumBatchBytes < 1 || maximumBatchBytes > 1 << 30 {
            problems.append("maximumBatchBytes: must be from 1 byte to 1 GiB")
        }
        if bufferedBatches < 1 { problems.append("bufferedBatches: must be at least 1") }
        if maximumWait < .zero { problems.append("maximumWait: must not be negative") }
        if pauseDelay < .zero { problems.append("pauseDelay: must not be negative") }
        return problems
    }
}
