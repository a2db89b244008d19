/// How to reach a Kafka cluster: brokers, and any librdkafka property beside (TLS, SASL, timeouts …).
///
/// Properties override this module's defaults. Those that its guarantees rest on (`enable.idempotence`, `acks`,
/// `enable.auto.commit` and the like) cannot be set to another value: creating the client then fails and says which.
package struct KafkaConfiguration: Sendable, CustomStringConvertible, CustomDebugStringConvertible {
    /// `host:port`, several separated by commas.
    package var bootstrapServers: String
    /// librdkafka's properties by name, as its CONFIGURATION.md lists them. Those that only consumers or only producers
    /// know are left out for the other kind of client, so one dictionary can serve all clients.
    package var properties: [String: String]
    #if DEBUG
    /// Detours of connections: ports by the ports in whose place they are connected to. For tests that place a proxy
    /// before an embedded broker, which advertises a port of its own.
    package var routes: [UInt16: UInt16] = [:]
    #endif

    package init(bootstrapServers: String, properties: [String: String] = [:]) {
        self.bootstrapServers = bootstrapServers
        self.properties = properties
    }

    /// The properties with every secret replaced, sorted by name: safe to print.
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

    /// The values that must not appear in logs and errors.
    var secrets: [String] {
        properties.filter { Self.isSecret($0.key) && !$0.value.isEmpty }.map(\.value)
    }
}

/// Blots out secrets in texts that come from librdkafka.
struct SecretRedaction: Sendable {
    private let secrets: [[UInt8]]

    init(_ configuration: KafkaConfiguration) {
        secrets = configuration.secrets.map { Array($0.utf8) }.sorted { $0.count > $1.count }
    }

    func callAsFunction(_ text: String) -> String {
        guard !secrets.isEmpty else { return text }
        var bytes = Array(text.utf8)
        for secret in secrets { Self.replace(secret, in: &bytes) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func replace(_ secret: [UInt8], in bytes: inout [UInt8]) {
        guard bytes.count >= secret.count else { return }
        var result: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index...].starts(with: secret) {
                result += "<redacted>".utf8
                index += secret.count
            } else {
                result.append(bytes[index])
                index += 1
            }
        }
        bytes = result
    }
}
