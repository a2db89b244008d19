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
        return secretMarks.contains { name.contains($0) }
    }

    /// `ssl.key.pem` is a private key in place; `sasl.oauthbearer.config` and `sasl.jaas.config` carry credentials.
    private static let secretMarks = [
        "password", "secret", "token", "ssl.key.pem", "ssl_key", "oauthbearer.config", "jaas.config",
    ]
}

/// Replaces secrets in texts of librdkafka.
struct SecretRedaction: Sendable {
    private let secrets: [[UInt8]]

    init(_ configuration: KafkaConfiguration) {
        secrets = configuration.properties.filter { KafkaConfiguration.isSecret($0.key) && !$0.value.isEmpty }
            .map { Array($0.value.utf8) }.sorted { $0.count > $1.count }
    }

    func callAsFunction(_ text: String) -> String {
        guard !secrets.isEmpty else { return text }
        var bytes = Array(text.utf8)
        for secret in secrets { bytes.replace(secret, with: "<redacted>".utf8) }
        return String(decoding: bytes, as: UTF8.self)
    }
}
