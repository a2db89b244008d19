// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A key that signs requests to a provider, in the form of Standard Webhooks: `whsec_` and the base64 of 24 to 64
/// random bytes. Never printed.
package struct SigningSecret: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible,
    CustomReflectable
{
    /// The key.
    package let bytes: [UInt8]

    package static let prefix = "whsec_"
    private static let byteCounts = 24...64
    /// Description of the form for messages.
    package static let form = "whsec_ and the base64 of 24 to 64 bytes"

    /// Nil if `text` does not have the form. Surrounding white space is ignored.
    package init?(_ text: String) {
        let text = text.trimmingCharacters(in: .whitespacesAndNewlines)
        guard text.hasPrefix(Self.prefix),
            let key = Data(base64Encoded: String(text.dropFirst(Self.prefix.count))),
            Self.byteCounts.contains(key.count)
        else { return nil }
        self.bytes = Array(key)
    }

    /// The secret as text, for storing it.
    package var exposed: String {
        Self.prefix + Data(bytes).base64EncodedString()
    }

    private init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// A new secret of 32 bytes from the system's generator, which is fit for keys.
    package static func random() -> SigningSecret {
        SigningSecret(bytes: (0..<32).map { _ in UInt8.random(in: .min ... .max) })
    }

    package var description: String { "whsec_<redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
