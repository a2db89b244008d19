// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
import HTTPTypes
import JSON
import Synchronization
import WidgetModel

/// The key of sessions. All replicas of the API have the same.
package struct ConsoleKey: Sendable, CustomStringConvertible, CustomReflectable {
    /// Least length of the secret, in bytes.
    package static let minimumBytes = 32

    private let sealing: SymmetricKey
    private let signing: SymmetricKey

    /// - Parameter text: base64 of ``minimumBytes`` or more; nil for any other text.
    package init?(base64 text: String) {
        guard let secret = Data(base64Encoded: text), secret.count >= Self.minimumBytes else { return nil }
        func derive(_ purpose: String) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: secret), info: Data("freshet console \(purpose)".utf8),
                outputByteCount: 32)
        }
        sealing = derive("session")
        signing = derive("csrf")
    }

    package var description: String { "<redacted>" }
    package var customMirror: Mirror { Mirror(self, children: [:]) }

    fileprivate func seal(_ bytes: [UInt8]) -> String? {
        (try? AES.GCM.seal(bytes, using: sealing))?.combined.map { String(base64URL: $0) }
    }

    fileprivate func open(_ text: String) -> [UInt8]? {
        guard let bytes = [UInt8](base64URL: text), let box = try? AES.GCM.SealedBox(combined: bytes) else {
            return nil
        }
        return (try? AES.GCM.open(box, using: sealing)).map { Array($0) }
    }

    /// Token of a session's forms.
    func formToken(of session: String) -> String {
        String(base64URL: HMAC<SHA256>.authenticationCode(for: Array(session.utf8), using: signing))
    }

    func isFormToken(_ text: String, of session: String) -> Bool {
        guard let code = [UInt8](base64URL: text) else { return false }
        return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: Array(session.utf8), using: signing)
    }
}

/// Links that sign an operator in, each once. They are known to the process that serves the console alone, which shows
/// them to the person who started it.
package final class ConsoleSignInLinks: Sendable {
    /// Tokens by the codes of the links that were not used.
    private let tokens = Mutex<[String: String]>([:])

    package init() {}

    /// Returns the path of a new link that signs in with a token.
    package func add(token: String) -> String {
        let code = String.randomID()
        tokens.withLock { $0[code] = token }
        return "\(Console.base)/sign-in?code=\(code)"
    }

    /// Takes the token of a link; nil if it was used, or never existed.
    func take(code: String) -> String? { tokens.withLock { $0.removeValue(forKey: code) } }
}

/// A session, kept in a sealed cookie of the browser: replicas share no state. Before the sign-in it has no token.
struct ConsoleSession: Sendable, Equatable {
    /// Longest token: a cookie has at most 4096 bytes.
    static let maximumTokenBytes = 2_800
    /// Time for which the form of the sign-in can be used.
    static let signInTime = Duration.seconds(3_600)

    let id: String
    let expiresAt: Timestamp
    /// The operator's token, which is verified at every request.
    var token: String?

    init(token: String? = nil, expiresAt: Timestamp) {
        id = String.randomID()
        self.expiresAt = expiresAt
        self.token = token
    }

    /// Opens a cookie; nil for one that was not sealed with the key, or that has expired.
    init?(cookie: String, key: ConsoleKey, now: Timestamp) {
        guard let bytes = key.open(cookie), let value = try? JSONValue.parse(bytes), let id = value["id"]?.stringValue,
            let end = value["end"]?.numberValue?.int64, Timestamp(microseconds: end) > now
        else { return nil }
        self.id = id
        expiresAt = Timestamp(microseconds: end)
        token = value["token"]?.stringValue
    }

    func sealed(_ key: ConsoleKey) -> String? {
        let value: JSONValue = ["id": .string(id), "end": .count(expiresAt.microseconds), "token": .text(token)]
        return key.seal(value.encoded)
    }
}

/// The cookie of sessions, or that of the sign-in's form.
///
/// The form has a cookie of its own: browsers do not send the session's when a link of another site leads here, and the
/// sign-in page shown then must not replace it. Over TLS a cookie is `Secure` with the prefix `__Host-`, so that no
/// other host of the domain can set it.
extension HTTPFields {
    /// Freshet serves plain HTTP; a proxy that ends TLS reports it. A client that lies changes only its own cookie.
    private var isSecure: Bool { self[.init("X-Forwarded-Proto")!]?.lowercased() == "https" }

    private func consoleCookieName(ofSignIn: Bool) -> String {
        "\(isSecure ? "__Host-" : "")freshet-console\(ofSignIn ? "-sign-in" : "")"
    }

    /// The value of the cookie in the headers of a request.
    func consoleCookie(ofSignIn: Bool = false) -> String? {
        let name = consoleCookieName(ofSignIn: ofSignIn)
        for field in self[values: .cookie] {
            for pair in field.split(separator: ";") {
                let parts = pair.split(separator: "=", maxSplits: 1)
                guard parts.count == 2, parts[0].drop(while: { $0 == " " }) == name else { continue }
                return String(parts[1])
            }
        }
        return nil
    }

    /// The `Set-Cookie` header of a session for the headers of a request; one that removes the cookie if nil.
    func settingConsoleCookie(_ sealed: String?, ofSignIn: Bool = false, for time: Duration = .zero) -> String {
        let attributes = "Path=/; HttpOnly; SameSite=Strict\(isSecure ? "; Secure" : "")"
        let age = sealed == nil ? 0 : time.components.seconds
        return "\(consoleCookieName(ofSignIn: ofSignIn))=\(sealed ?? ""); Max-Age=\(age); \(attributes)"
    }
}
