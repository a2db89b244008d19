import Crypto

/// Signs requests as Standard Webhooks says, so that a provider can tell that Freshet asks, and nobody repeats it
/// later.
package struct WebhookSignature: Sendable {
    /// The app's secrets, the newest first.
    private let keys: [SymmetricKey]

    package init(secret: [UInt8]) {
        self.init(secrets: [secret])
    }

    /// - Parameter secrets: the newest first; more than one while a secret is being replaced.
    package init(secrets: [[UInt8]]) {
        keys = secrets.map { SymmetricKey(data: $0) }
    }

    /// The value of `webhook-signature`: HMAC-SHA256 of `id.timestamp.body`, for each secret in turn, separated by spaces.
    ///
    /// - Parameters:
    ///   - id: value of `webhook-id`, another one for each request.
    ///   - timestamp: value of `webhook-timestamp`, seconds since 1970.
    package func sign(id: String, timestamp: Int64, body: [UInt8]) -> String {
        keys.map { key in
            var code = HMAC<SHA256>(key: key)
            code.update(data: Array("\(id).\(timestamp).".utf8))
            code.update(data: body)
            return "v1," + Base64.encode(Array(code.finalize()))
        }.joined(separator: " ")
    }

    /// A value for `webhook-id` that nobody else makes.
    package static func makeID() -> String {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<18).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        return "msg_" + Base64.encode(bytes, alphabet: Base64.urlSafe)
    }
}

/// RFC 4648, with padding.
enum Base64 {
    static let standard = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    static let urlSafe = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    static func encode(_ bytes: [UInt8], alphabet: [UInt8] = standard) -> String {
        var out: [UInt8] = []
        out.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            var word: UInt32 = 0
            for byte in group { word = word << 8 | UInt32(byte) }
            word <<= UInt32(8 * (3 - group.count))
            for position in 0..<4 {
                let isPadding = position > group.count
                out.append(isPadding ? UInt8(ascii: "=") : alphabet[Int(word >> UInt32(18 - 6 * position) & 63)])
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
