import Crypto
import Foundation
import WidgetModel

/// Checks that a request was signed with the secret by Standard Webhooks, scheme `v1` (HMAC-SHA256 over
/// `id.timestamp.body`).
struct WebhookVerifier: Sendable {
    /// Reason why a request is not trusted.
    enum Refusal: String, Error, Sendable {
        case missingHeader = "webhook-id, webhook-timestamp or webhook-signature is missing"
        case invalidTimestamp = "webhook-timestamp is not a number of seconds"
        case outdated = "webhook-timestamp is more than five minutes off"
        case wrongSignature = "no signature matches"
    }

    /// The headers of a signed request.
    struct Headers: Sendable {
        var id: String?
        var timestamp: String?
        /// `v1,BASE64` once or more, separated by spaces: several while a secret is being replaced.
        var signature: String?
    }

    /// Largest difference of the clocks, and the time for which a request can be replayed.
    static let tolerance = Duration.seconds(300)

    private let key: SymmetricKey

    /// - Parameter key: the bytes of the secret.
    init(key: [UInt8]) {
        self.key = SymmetricKey(data: key)
    }

    /// Throws unless one of the signatures is right and the time is near `now`.
    func verify(_ headers: Headers, body: [UInt8], now: Timestamp) throws(Refusal) {
        guard let id = headers.id, let timestamp = headers.timestamp, let signature = headers.signature else {
            throw .missingHeader
        }
        guard let seconds = Int64(timestamp), (0...253_402_300_799).contains(seconds) else { throw .invalidTimestamp }
        let distance = Timestamp(microseconds: seconds * 1_000_000) - now
        guard distance <= Self.tolerance, distance >= .zero - Self.tolerance else { throw .outdated }
        var content = Data("\(id).\(timestamp).".utf8)
        content.append(contentsOf: body)
        for part in signature.split(separator: " ") where part.hasPrefix("v1,") {
            guard let code = Data(base64Encoded: String(part.dropFirst(3))) else { continue }
            // Compares in constant time.
            if HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: content, using: key) { return }
        }
        throw .wrongSignature
    }
}
