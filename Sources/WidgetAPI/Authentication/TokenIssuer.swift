import Crypto
package import JSON
import JWTKit
package import WidgetModel

/// Issues tokens and keys for development and tests, in place of an identity provider.
package struct TokenIssuer: Sendable {
    package struct NoSigningKey: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    private let keys: TokenKeys

    package init(keys: TokenKeys) {
        self.keys = keys
    }

    /// Signs a token.
    ///
    /// - Parameter keyID: id of the key to sign with; nil for the first that can sign.
    package func issue(
        app: String, user: String? = nil, scopes: [TokenScope], subject: String? = nil, issuer: String? = nil,
        audience: String? = nil, notBefore: Timestamp? = nil, expiresAt: Timestamp, keyID: String? = nil,
        now: Timestamp = WallClock.now()
    ) async throws(NoSigningKey) -> String {
        let candidates = keys.ids.compactMap { keys.keys[$0] }.filter { key in
            key.canSign && keyID.map { Text.equal($0, key.id) } ?? true
        }
        guard let key = candidates.first else {
            throw NoSigningKey(
                description: keyID.map { "there is no private key \(Text.quoted($0)) among the keys" }
                    ?? "none of the keys can sign: they are public")
        }
        let claims = TokenClaims(
            app: app, user: user, scope: ScopeClaim(scopes), sub: subject, iss: issuer,
            aud: audience.map { AudienceClaim(value: $0) }, iat: now.seconds, nbf: notBefore?.seconds,
            exp: expiresAt.seconds, jti: RandomID.make())
        do {
            return try await key.collection.sign(claims, kid: JWKIdentifier(string: key.id))
        } catch {
            throw NoSigningKey(description: "the key \(key.id) cannot sign")
        }
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

    /// The public keys of a set, for services that only verify. Secrets are left out.
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
    /// Whole seconds since 1970.
    fileprivate var seconds: Double { Double(microseconds / 1_000_000) }
}
