import Crypto
import WidgetModel

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Signature of requests by Standard Webhooks, which lets providers verify origin and freshness.
package struct WebhookSignature: Sendable {
    /// The app's secrets, the newest first.
    private let keys: [SymmetricKey]

    /// - Parameter secrets: the newest first; more than one while a secret is being replaced.
    package init(secrets: [[UInt8]]) {
        keys = secrets.map { SymmetricKey(data: $0) }
    }

    /// Value of `webhook-signature`: HMAC-SHA256 of `id.timestamp.body` for each secret, separated by spaces.
    ///
    /// - Parameters:
    ///   - id: unique value of `webhook-id`.
    ///   - timestamp: value of `webhook-timestamp`, seconds since 1970.
    package func sign(id: String, timestamp: Int64, body: [UInt8]) -> String {
        keys.map { key in
            var code = HMAC<SHA256>(key: key)
            code.update(data: Array("\(id).\(timestamp).".utf8))
            code.update(data: body)
            return "v1," + Data(code.finalize()).base64EncodedString()
        }.joined(separator: " ")
    }

    /// A unique value for `webhook-id`.
    package static func makeID() -> String { "msg_" + RandomID.make() }
}
