// SPDX-License-Identifier: Apache-2.0

import JSON
import JWTKit
import Synchronization
package import WidgetModel

/// Reason to refuse a token. The text goes to the bearer and reveals nothing about the keys.
package enum TokenRefusal: String, Error, CaseIterable, Sendable {
    case missing = "expected the header Authorization: Bearer with a token"
    case malformed = "the token is not a valid JSON Web Token"
    case tooLong = "the token is longer than 32768 bytes"
    case notTrusted = "the token is not signed by a trusted key"
    case expired = "the token has expired"
    case notYetValid = "the token is not valid yet"
    case wrongAudience = "the token is for another audience or from another issuer"
}

/// Requirements on the claims of tokens.
package struct TokenRules: Hashable, Sendable {
    /// Required `iss`; nil accepts any.
    package var issuer: String?
    /// Required member of `aud`; nil accepts only tokens without `aud`.
    package var audience: String?
    /// Tolerated difference between the issuer's clock and this machine's.
    var leeway = Duration.seconds(30)
}

/// Verifies bearer tokens: signature, times, issuer, audience and claims.
///
/// A bounded number of verified tokens are remembered by their hash. They are checked against the clock at each use and
/// forgotten when the keys change.
package final class TokenVerifier: Sendable {
    /// Longest token, in bytes: room for several hundred groups. ``TokenRefusal/tooLong`` names it.
    package static let maximumBytes = 32_768
    /// Number of recent tokens that are remembered.
    private static let remembered = 5_000

    private let keys: TokenKeyStore
    private let rules: TokenRules
    private let now: @Sendable () -> Timestamp
    /// Verified tokens by fingerprint, and the revision of the keys that verified them.
    private let memory = Mutex((revision: UInt64(0), known: RecentlyUsed<ContentHash, Principal>(limit: remembered)))

    /// - Parameter now: this machine's time of day, which is compared with issuers' clocks.
    package init(keys: TokenKeyStore, rules: TokenRules, now: @escaping @Sendable () -> Timestamp = Timestamp.now) {
        self.keys = keys
        self.rules = rules
        self.now = now
    }

    /// The token in an `Authorization` header.
    static func token(in header: String?) throws(TokenRefusal) -> [UInt8] {
        let scheme = "bearer "
        guard let header, header.utf8.count > scheme.utf8.count,
            header.utf8.prefix(scheme.utf8.count).elementsEqual(scheme.utf8, by: { $0 | 0x20 == $1 })
        else { throw .missing }
        return Array(header.utf8.dropFirst(scheme.utf8.count))
    }

    /// The bearer of a token if it is remembered and valid now; nil if it must be verified. Costs one hash.
    func known(token: [UInt8]) throws(TokenRefusal) -> Principal? {
        guard token.count <= Self.maximumBytes else { return nil }
        let (fingerprint, revision) = (ContentHash(of: token), keys.current().revision)
        let known = memory.withLock { memory in
            if memory.revision != revision { memory = (revision, RecentlyUsed(limit: Self.remembered)) }
            return memory.known[fingerprint]
        }
        if let known { try checkTimes(known) }
        return known
    }

    /// The bearer of a token.
    package func principal(token: [UInt8]) async throws(TokenRefusal) -> Principal {
        guard token.count <= Self.maximumBytes else { throw .tooLong }
        if let known = try known(token: token) { return known }
        let (keys, revision) = keys.current()
        let principal = try await verify(token, ContentHash(of: token), keys)
        memory.withLock { memory in
            if memory.revision == revision { memory.known[principal.fingerprint] = principal }
        }
        return principal
    }

    // MARK: Verification

    private func verify(
        _ token: [UInt8], _ fingerprint: ContentHash, _ keys: TokenKeys
    ) async throws(TokenRefusal) -> Principal {
        // JWTKit finds keys by the header, and ignores its other members and how the parts are spelt.
        let parts = String(decoding: token, as: UTF8.self).split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, [UInt8](base64URL: parts[2]) != nil, let header = Self.json(parts[0])?.objectValue,
            header["crit"] == nil, Self.isTokenType(header["typ"]), Self.json(parts[1]) != nil
        else { throw .malformed }
        guard let name = header["alg"]?.stringValue, let algorithm = TokenAlgorithm(rawValue: name),
            header["kid"] == nil || header["kid"]?.stringValue != nil,
            let key = keys.key(id: header["kid"]?.stringValue, algorithm: algorithm)
        else { throw .notTrusted }
        let claims: TokenClaims
        do {
            claims = try await key.collection.verify(token, as: TokenClaims.self)
        } catch {
            throw (error as? JWTError)?.errorType == .malformedToken ? .malformed : .notTrusted
        }
        let principal = try principal(claims, fingerprint)
        try checkTimes(principal)
        return principal
    }

    /// A part of a token. Duplicate members, which two readers could read differently, are refused.
    private static func json(_ part: Substring) -> JSONValue? {
        [UInt8](base64URL: part).flatMap { try? JSONValue.parse($0, maximumDepth: 8, checksNumbers: false) }
    }

    /// Whether `typ` is absent, `JWT`, or the type of an access token; other types are rejected.
    private static func isTokenType(_ value: JSONValue?) -> Bool {
        guard let value else { return true }
        return ["jwt", "at+jwt", "application/at+jwt"].contains(value.stringValue?.lowercased())
    }

    private func principal(_ claims: TokenClaims, _ fingerprint: ContentHash) throws(TokenRefusal) -> Principal {
        try checkParties(claims)
        guard Text.identifierProblem(claims.app) == nil, claims.user.map({ Text.identifierProblem($0) == nil }) ?? true,
            let expiresAt = Self.time(claims.exp)
        else { throw .malformed }
        var notBefore: Timestamp?
        if let seconds = claims.nbf {
            guard let time = Self.time(seconds) else { throw .malformed }
            notBefore = time
        }
        return Principal(
            app: claims.app, user: claims.user, scopes: claims.scopes,
            subject: claims.sub.map { Text.printable($0, maximum: 128) },
            tokenID: claims.jti.map { Text.printable($0, maximum: 128) }, fingerprint: fingerprint,
            notBefore: notBefore, expiresAt: expiresAt)
    }

    private func checkParties(_ claims: TokenClaims) throws(TokenRefusal) {
        if let issuer = rules.issuer {
            guard let found = claims.iss, Text.equal(found, issuer) else { throw .wrongAudience }
        }
        if let audience = rules.audience {
            guard let found = claims.aud?.value, found.contains(where: { Text.equal($0, audience) }) else {
                throw .wrongAudience
            }
        } else if claims.aud != nil {
            throw .wrongAudience
        }
    }

    /// A time in seconds since 1970, with or without a fraction; nil if it is out of range.
    private static func time(_ seconds: Double) -> Timestamp? {
        (0...1e11).contains(seconds) ? Timestamp(microseconds: Int64(seconds * 1_000_000)) : nil
    }

    private func checkTimes(_ principal: Principal) throws(TokenRefusal) {
        let now = now()
        guard now < principal.expiresAt + rules.leeway else { throw .expired }
        if let notBefore = principal.notBefore, now < notBefore - rules.leeway { throw .notYetValid }
    }
}

/// Permissions of a token within its app.
package enum TokenScope: String, CaseIterable, Sendable {
    /// Register, change and retire kinds, rotate the signing secret, and test providers.
    case kindsWrite = "kinds:write"
    /// Read kinds, widgets and timelines.
    case widgetsRead = "widgets:read"
    /// Place, configure, view and remove widgets, and change the environment of devices.
    case widgetsWrite = "widgets:write"
    /// Request reloads.
    case reload
    /// Publish events of any type but requests for reloads without budget and spacing, which need `operate` too.
    case publish
    /// Read explanations, forecasts, dead letters and whole definitions of kinds.
    case operateRead = "operate:read"
    /// The above, pausing, replaying and discarding dead letters, erasing persons, and reloads without budget and
    /// spacing.
    case operate
}

/// The bearer of a verified token.
package struct Principal: Hashable, Sendable {
    /// The app that the token is bound to.
    package let app: String
    /// The user that a device token is bound to.
    package let user: String?
    package let scopes: Set<TokenScope>
    /// The token's `sub` and `jti`, for logs.
    package let subject: String?
    package let tokenID: String?
    /// Hash of the token, which identifies it without being usable as one.
    package let fingerprint: ContentHash
    /// Times between which the token is valid, without leeway.
    package let notBefore: Timestamp?
    package let expiresAt: Timestamp

    package func has(_ scope: TokenScope) -> Bool {
        scopes.contains(scope) || scope == .operateRead && scopes.contains(.operate)
    }

    /// Name of the bearer for other operators.
    var operatorName: String { subject ?? name }

    /// Name for the audit log.
    package var name: String {
        let parts = [subject, tokenID.map { "token \($0)" }].compactMap { $0 }
        return parts.isEmpty ? "token \(fingerprint.description.prefix(8))" : parts.joined(separator: ", ")
    }
}

/// The claims of a token, as issued and as verified.
struct TokenClaims: JWTPayload {
    var app: String
    var user: String?
    /// Names of scopes with spaces between them.
    var scope: String?
    var sub: String?
    var iss: String?
    var aud: AudienceClaim?
    var iat: Double?
    var nbf: Double?
    var exp: Double
    var jti: String?

    /// The times depend on the clock, so ``TokenVerifier`` checks them each time a token is used.
    func verify(using algorithm: some JWTAlgorithm) async throws {}
}

extension TokenClaims {
    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        // A member that is null is an error: it is not the same as none.
        func optional<Value: Decodable>(_ key: CodingKeys) throws -> Value? {
            container.contains(key) ? try container.decode(Value.self, forKey: key) : nil
        }
        app = try container.decode(String.self, forKey: .app)
        exp = try container.decode(Double.self, forKey: .exp)
        user = try optional(.user)
        // Some issuers write an array.
        let names = try? container.decode([String].self, forKey: .scope)
        scope = try names.map { $0.filter { !$0.contains(" ") }.joined(separator: " ") } ?? optional(.scope)
        sub = try optional(.sub)
        iss = try optional(.iss)
        aud = try optional(.aud)
        iat = try optional(.iat)
        nbf = try optional(.nbf)
        jti = try optional(.jti)
    }

    /// The scopes that Freshet knows. An issuer may grant others too.
    fileprivate var scopes: Set<TokenScope> {
        Set((scope ?? "").split(separator: " ").compactMap { TokenScope(rawValue: String($0)) })
    }
}
