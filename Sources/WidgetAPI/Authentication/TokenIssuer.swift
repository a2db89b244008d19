import Crypto
import JWTKit
package import WidgetModel

/// Makes tokens and keys, for development and tests: in production an identity provider does.
package struct TokenIssuer: Sendable {
    /// What a token is to say.
    package struct Grant: Sendable {
        package var app: String
        package var user: String?
        package var scopes: [TokenScope]
        package var subject: String?
        package var issuer: String?
        package var audience: String?
        package var notBefore: Timestamp?
        package var expiresAt: Timestamp

        package init(
            app: String, user: String? = nil, scopes: [TokenScope], subject: String? = nil, issuer: String? = nil,
            audience: String? = nil, notBefore: Timestamp? = nil, expiresAt: Timestamp
        ) {
            self.app = app
            self.user = user
            self.scopes = scopes
            self.subject = subject
            self.issuer = issuer
            self.audience = audience
            self.notBefore = notBefore
            self.expiresAt = expiresAt
        }
    }

    private struct Claims: JWTPayload {
        var app: String
        var user: String?
        var scope: String
        var sub: String?
        var iss: String?
        var aud: String?
        var iat: Int64
        var nbf: Int64?
        var exp: Int64
        var jti: String

        func verify(using algorithm: some JWTAlgorithm) async throws {}
    }

    package struct NoSigningKey: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    private let keys: TokenKeys

    package init(keys: TokenKeys) {
        self.keys = keys
    }

    /// Signs a token.
    ///
    /// - Parameter keyID: of the key to sign with; the first that can sign, if nil.
    package func issue(
        _ grant: Grant, keyID: String? = nil, now: Timestamp = WallClock.now()
    ) async throws(NoSigningKey) -> String {
        let candidates = keys.ids.compactMap { keys.keys[$0] }.filter { key in
            key.signer != nil && keyID.map { Text.equal($0, key.id) } ?? true
        }
        guard let key = candidates.first, let signer = key.signer else {
            throw NoSigningKey(
                description: keyID.map { "there is no private key \(Text.quoted($0)) among the keys" }
                    ?? "none of the keys can sign: they are public")
        }
        let claims = Claims(
            app: grant.app, user: grant.user, scope: grant.scopes.map(\.rawValue).joined(separator: " "),
            sub: grant.subject, iss: grant.issuer, aud: grant.audience, iat: now.seconds,
            nbf: grant.notBefore?.seconds, exp: grant.expiresAt.seconds, jti: Self.identifier())
        do {
            return try await signer.sign(claims, kid: JWKIdentifier(string: key.id))
        } catch {
            throw NoSigningKey(description: "the key \(key.id) cannot sign")
        }
    }

    private static func identifier() -> String {
        var generator = SystemRandomNumberGenerator()
        let words: [UInt64] = [generator.next(), generator.next()]
        return Base64URL.encode(words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) } })
    }

    // MARK: Keys

    /// A new key as a member of a JWKS, with its private part.
    package static func makeKey(_ algorithm: TokenAlgorithm, id: String) -> JSONValue {
        var object = JSONObject()
        object["kid"] = .string(id)
        object["use"] = "sig"
        object["alg"] = .string(algorithm.rawValue)
        switch algorithm {
        case .hs256:
            object["kty"] = "oct"
            object["k"] = .string(SymmetricKey(size: .bits256).withUnsafeBytes { Base64URL.encode($0) })
        case .es256:
            let key = P256.Signing.PrivateKey()
            // 64 bytes: x, then y.
            let point = Array(key.publicKey.rawRepresentation)
            object["kty"] = "EC"
            object["crv"] = "P-256"
            object["x"] = .string(Base64URL.encode(point.prefix(32)))
            object["y"] = .string(Base64URL.encode(point.dropFirst(32)))
            object["d"] = .string(Base64URL.encode(key.rawRepresentation))
        case .eddsa:
            let key = Curve25519.Signing.PrivateKey()
            object["kty"] = "OKP"
            object["crv"] = "Ed25519"
            object["x"] = .string(Base64URL.encode(key.publicKey.rawRepresentation))
            object["d"] = .string(Base64URL.encode(key.rawRepresentation))
        }
        return .object(object)
    }

    /// The public keys of a set: what services that only verify are to have. Secrets are left out.
    package static func publicKeys(_ set: JSONValue) -> JSONValue {
        let keys = (set["keys"]?.arrayValue ?? []).compactMap { key -> JSONValue? in
            guard key["kty"]?.stringValue != "oct", case .object(var object) = key else { return nil }
            object["d"] = nil
            return .object(object)
        }
        return ["keys": .array(keys)]
    }
}

extension Timestamp {
    fileprivate var seconds: Int64 { microseconds / 1_000_000 }
}
