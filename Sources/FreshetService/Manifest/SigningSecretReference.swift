import Foundation
package import WidgetModel

package enum SigningSecretReference: Hashable, Sendable {
    case environment(String)
    /// A path relative to the manifest's folder.
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
