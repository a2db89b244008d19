import Foundation

/// A key that signs requests to a provider, in the form of Standard Webhooks: `whsec_` and the base64 of 24 to 64 random
/// bytes. Never printed.
package struct SigningSecret: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible,
    CustomReflectable
{
    /// The key.
    package let bytes: [UInt8]

    package static let prefix = "whsec_"
    static let byteCounts = 24...64
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

    package var description: String { "whsec_<redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Place of a secret.
package enum SigningSecretReference: Hashable, Sendable {
    case environment(String)
    /// A path, relative to the manifest's folder.
    case file(String)

    /// Error of a secret that cannot be read, without its content.
    package struct Unresolved: Error, Sendable {
        package let message: String
        package let expectation: String?
    }

    /// Reads the secret. Relative paths start at `folder`.
    package func resolve(environment: [String: String], folder: String) throws(Unresolved) -> SigningSecret {
        let text: String
        let place: String
        switch self {
        case .environment(let name):
            place = "the environment variable \(name)"
            guard let value = environment[name], !value.isEmpty else {
                throw Unresolved(message: "\(place) is not set", expectation: SigningSecret.form)
            }
            text = value
        case .file(let path):
            let url = URL(fileURLWithPath: path, relativeTo: URL(fileURLWithPath: folder, isDirectory: true))
            place = "the file \(path)"
            do {
                text = try BoundedFile.read(path: url.path, maximumBytes: 4096)
            } catch {
                throw Unresolved(message: error.message, expectation: nil)
            }
        }
        guard let secret = SigningSecret(text) else {
            throw Unresolved(message: "\(place) holds no signing secret", expectation: SigningSecret.form)
        }
        return secret
    }
}
