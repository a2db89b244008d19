import JWTKit
import Synchronization
package import WidgetModel

/// Why a token is refused. The text goes to the bearer, and tells nothing of the keys.
package enum TokenRefusal: String, Error, CaseIterable, Sendable {
    case missing = "expected the header Authorization: Bearer with a token"
    case malformed = "the token is not a JSON Web Token as is expected here"
    case notTrusted = "the token is not signed by a key that is trusted here"
    case expired = "the token has expired"
    case notYetValid = "the token is not valid yet"
    case wrongAudience = "the token is for another audience or of another issuer"
}

/// What tokens must say besides their signature.
package struct TokenRules: Hashable, Sendable {
    /// What `iss` must be; nil: anything.
    package var issuer: String?
    /// What `aud` must hold; nil: a token must have no `aud`, since it would be meant for somebody else.
    package var audience: String?
    /// How far the clocks of the issuer and of this machine may be apart.
    package var leeway: Duration

    package init(issuer: String? = nil, audience: String? = nil, leeway: Duration = .seconds(30)) {
        self.issuer = issuer
        self.audience = audience
        self.leeway = leeway
    }
}

/// Verifies bearer tokens: signature, times, issuer, audience, and that the claims are what they should be.
///
/// A token that was verified is remembered, in bounded number, by its hash: it is still checked against the clock each
/// time, and forgotten when the keys change.
package final class TokenVerifier: Sendable {
    /// Longest token, in bytes.
    package static let maximumBytes = 8_192
    /// Tokens remembered: the last so many, up to twice that.
    private static let remembered = 5_000

    fileprivate struct Memory {
        var revision: UInt64 = 0
        var young: [ContentHash: Principal] = [:]
        var old: [ContentHash: Principal] = [:]
    }

    private let keys: TokenKeyStore
    private let rules: TokenRules
    private let now: @Sendable () -> Timestamp
    private let memory = Mutex(Memory())

    /// - Parameter now: the time of day of this machine, which issuers' clocks are compared with.
    package init(keys: TokenKeyStore, rules: TokenRules, now: @escaping @Sendable () -> Timestamp = WallClock.now) {
        self.keys = keys
        self.rules = rules
        self.now = now
    }

    /// The bearer of an `Authorization` header.
    package func principal(authorization header: String?) throws(TokenRefusal) -> Principal {
        try principal(token: try Self.token(header))
    }

    /// The bearer of an `Authorization` header if the token was verified before with the keys in force, and is valid now;
    /// nil when it would have to be verified. It costs a hash.
    package func known(authorization header: String?) throws(TokenRefusal) -> Principal? {
        let token = try Self.token(header)
        guard token.count <= Self.maximumBytes else { return nil }
        guard let known = recall(ContentHash(of: token), keys.current().revision) else { return nil }
        try checkTimes(known)
        return known
    }

    private static func token(_ header: String?) throws(TokenRefusal) -> [UInt8] {
        let scheme = "bearer "
        guard let header, header.utf8.count > scheme.utf8.count,
            header.utf8.prefix(scheme.utf8.count).elementsEqual(scheme.utf8, by: { $0 | 0x20 == $1 })
        else { throw .missing }
        return Array(header.utf8.dropFirst(scheme.utf8.count))
    }

    package func principal(token: [UInt8]) throws(TokenRefusal) -> Principal {
        guard token.count <= Self.maximumBytes else { throw .malformed }
        let fingerprint = ContentHash(of: token)
        let (keys, revision) = keys.current()
        if let known = recall(fingerprint, revision) {
            try checkTimes(known)
            return known
        }
        let principal = try verify(token, fingerprint, keys)
        remember(principal, revision)
        return principal
    }

    // MARK: Verification

    private func verify(
        _ token: [UInt8], _ fingerprint: ContentHash, _ keys: TokenKeys
    ) throws(TokenRefusal) -> Principal {
        let parts = token.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.object(parts[0]), let signature = Base64URL.decode(parts[2]) else {
            throw .malformed
        }
        // What is critical to understand is not understood (RFC 7515, section 4.1.11).
        guard header["crit"] == nil, Self.isTokenType(header["typ"]) else { throw .malformed }
        guard let name = header["alg"]?.stringValue, let algorithm = TokenAlgorithm(rawValue: name) else {
            throw .notTrusted
        }
        var id: String?
        if let value = header["kid"] {
            guard let text = value.stringValue else { throw .malformed }
            id = text
        }
        guard let key = keys.key(id: id, algorithm: algorithm) else { throw .notTrusted }
        let signed = Array(token[..<(parts[1].endIndex)])
        // Each algorithm compares in constant time, or verifies with a public key.
        guard (try? key.verifier.verify(signature, signs: signed)) == true else { throw .notTrusted }
        guard let claims = Self.object(parts[1]) else { throw .malformed }
        let principal = try read(claims, fingerprint)
        try checkTimes(principal)
        return principal
    }

    private static func object(_ part: ArraySlice<UInt8>) -> JSONObject? {
        // The reader refuses duplicate members, of which two readers could take different ones.
        guard let bytes = Base64URL.decode(part), let value = try? JSONValue.parse(bytes, maximumDepth: 8) else {
            return nil
        }
        return value.objectValue
    }

    /// Whether `typ` is that of an access token, so that no other sort of token is taken for one.
    private static func isTokenType(_ value: JSONValue?) -> Bool {
        guard let value else { return true }
        switch value.stringValue?.lowercased() {
        case "jwt", "at+jwt", "application/at+jwt": return true
        default: return false
        }
    }

    private func read(_ claims: JSONObject, _ fingerprint: ContentHash) throws(TokenRefusal) -> Principal {
        try checkParties(claims)
        guard let app = claims["app"]?.stringValue, Text.identifierProblem(app) == nil,
            let expiry = Self.time(claims["exp"])
        else { throw .malformed }
        var user: String?
        if let value = claims["user"] {
            guard let text = value.stringValue, Text.identifierProblem(text) == nil else { throw .malformed }
            user = text
        }
        var notBefore: Timestamp?
        if let value = claims["nbf"] {
            guard let time = Self.time(value) else { throw .malformed }
            notBefore = time
        }
        return Principal(
            app: app, user: user, scopes: try Self.scopes(claims["scope"]), subject: Self.label(claims["sub"]),
            tokenID: Self.label(claims["jti"]), fingerprint: fingerprint, notBefore: notBefore, expiresAt: expiry)
    }

    private func checkParties(_ claims: JSONObject) throws(TokenRefusal) {
        if let issuer = rules.issuer {
            guard let found = claims["iss"]?.stringValue, Text.equal(found, issuer) else { throw .wrongAudience }
        }
        var audiences: [String] = []
        switch claims["aud"] {
        case nil: break
        case .string(let one): audiences = [one]
        case .array(let list):
            for value in list {
                guard let text = value.stringValue else { throw .malformed }
                audiences.append(text)
            }
        default: throw .malformed
        }
        if let audience = rules.audience {
            guard audiences.contains(where: { Text.equal($0, audience) }) else { throw .wrongAudience }
        } else if claims["aud"] != nil {
            throw .wrongAudience
        }
    }

    private func checkTimes(_ principal: Principal) throws(TokenRefusal) {
        let now = now()
        guard now < principal.expiresAt + rules.leeway else { throw .expired }
        if let notBefore = principal.notBefore, now < notBefore - rules.leeway { throw .notYetValid }
    }

    /// Seconds since 1970, with or without a fraction.
    private static func time(_ value: JSONValue?) -> Timestamp? {
        guard let seconds = value?.numberValue?.double, (0...1e11).contains(seconds) else { return nil }
        return Timestamp(microseconds: Int64(seconds * 1_000_000))
    }

    /// Scopes that are not ours are passed over: an issuer may grant others too.
    private static func scopes(_ value: JSONValue?) throws(TokenRefusal) -> Set<TokenScope> {
        switch value {
        case nil: return []
        case .string(let text):
            return Set(text.split(separator: " ").compactMap { TokenScope(rawValue: String($0)) })
        case .array(let list):
            var scopes: Set<TokenScope> = []
            for value in list {
                guard let text = value.stringValue else { throw .malformed }
                if let scope = TokenScope(rawValue: text) { scopes.insert(scope) }
            }
            return scopes
        default: throw .malformed
        }
    }

    private static func label(_ value: JSONValue?) -> String? {
        value?.stringValue.map { Text.printable($0, maximum: 128) }
    }

    // MARK: Memory

    private func recall(_ fingerprint: ContentHash, _ revision: UInt64) -> Principal? {
        memory.withLock { memory in
            guard memory.revision == revision else {
                memory = Memory(revision: revision)
                return nil
            }
            if let known = memory.young[fingerprint] { return known }
            guard let known = memory.old.removeValue(forKey: fingerprint) else { return nil }
            memory.note(known, limit: Self.remembered)
            return known
        }
    }

    private func remember(_ principal: Principal, _ revision: UInt64) {
        memory.withLock { memory in
            guard memory.revision == revision else { return }
            memory.note(principal, limit: Self.remembered)
        }
    }
}

extension TokenVerifier.Memory {
    fileprivate mutating func note(_ principal: Principal, limit: Int) {
        if young.count >= limit {
            old = young
            young = [:]
        }
        young[principal.fingerprint] = principal
    }
}
