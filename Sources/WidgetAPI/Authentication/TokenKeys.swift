// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
package import JSON
import JWTKit
package import Logging
import Synchronization
package import WidgetModel

/// Signature algorithms of tokens. Each type of key has exactly one.
package enum TokenAlgorithm: String, CaseIterable, Sendable {
    case hs256 = "HS256"
    case es256 = "ES256"
    case eddsa = "EdDSA"
}

/// Keys that verify tokens, from a JWKS document (RFC 7517).
package struct TokenKeys: Sendable {
    struct Key: Sendable {
        let id: String
        let algorithm: TokenAlgorithm
        /// Verifies with this key alone, and signs with it if ``canSign``.
        let collection: JWTKeyCollection
        /// False for a public key.
        let canSign: Bool
    }

    /// Largest document, in bytes, and most keys in it.
    package static let maximumBytes = 65_536
    package static let maximumKeys = 64
    /// Least bytes of an HS256 secret, as many as its hash has.
    package static let minimumSecretBytes = 32

    /// Keys by their ids, which are printable ASCII.
    let keys: [String: Key]
    /// Ids, or indices in the list, of keys of another use or type, which are ignored.
    package let ignored: [String]

    package static let none = TokenKeys(keys: [:], ignored: [])

    package var ids: [String] { keys.keys.sorted() }
}

extension TokenKeys {
    /// Reads a JWKS: `oct` keys for HS256, `EC` on P-256 for ES256, `OKP` Ed25519 for EdDSA. Keys of other types or for
    /// encryption are ignored; a broken key of these types makes the whole set unusable.
    package init(jwks bytes: [UInt8]) async throws(ModelError) {
        guard bytes.count <= Self.maximumBytes else {
            throw ModelError(message: "larger than \(Self.maximumBytes) bytes", pointer: "")
        }
        let document: JSONValue
        do throws(JSONError) {
            document = try JSONValue.parse(bytes, checksNumbers: false)
        } catch {
            throw ModelError(message: "not JSON: \(error.message) at byte \(error.byteOffset)", pointer: "")
        }
        guard let list = document["keys"]?.arrayValue else {
            throw ModelError(message: "expected an array of keys", pointer: "/keys")
        }
        guard list.count <= Self.maximumKeys else {
            throw ModelError(message: "more than \(Self.maximumKeys) keys", pointer: "/keys")
        }
        var keys: [String: Key] = [:]
        var ignored: [String] = []
        for (index, value) in list.enumerated() {
            let pointer = "/keys/\(index)"
            guard let key = try await Key(value, at: pointer) else {
                ignored.append(value["kid"]?.stringValue.map { Text.printable($0, maximum: 64) } ?? "\(index)")
                continue
            }
            guard keys.updateValue(key, forKey: key.id) == nil else {
                throw ModelError(message: "is the id of another key too", pointer: pointer + "/kid")
            }
        }
        guard !keys.isEmpty else {
            throw ModelError(
                message: "no key for HS256, ES256 or EdDSA (P-256 or Ed25519) among them", pointer: "/keys")
        }
        self.init(keys: keys, ignored: ignored)
    }

    /// The key that a token names, or the only one for its algorithm. A key of another algorithm is never returned, so
    /// a public key cannot be taken for a secret.
    func key(id: String?, algorithm: TokenAlgorithm) -> Key? {
        if let id {
            guard let key = keys[id], Text.equal(key.id, id), key.algorithm == algorithm else { return nil }
            return key
        }
        let candidates = keys.values.filter { $0.algorithm == algorithm }
        return candidates.count == 1 ? candidates[0] : nil
    }
}

extension TokenKeys.Key {
    /// Reads one key of a set; nil for a key that does not verify tokens.
    fileprivate init?(_ value: JSONValue, at pointer: String) async throws(ModelError) {
        guard let algorithm = try Self.algorithm(of: value, at: pointer) else { return nil }
        let id = try Self.text("kid", of: value, at: pointer)
        guard (1...256).contains(id.utf8.count), id.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw ModelError(
                message: "expected 1 to 256 bytes of printable ASCII without spaces", pointer: "\(pointer)/kid")
        }
        let isPrivate = value["d"] != nil
        do {
            let collection = try await Self.collection(
                of: value, algorithm, isPrivate: isPrivate, kid: JWKIdentifier(string: id), at: pointer)
            self.init(
                id: id, algorithm: algorithm, collection: collection, canSign: isPrivate || algorithm == .hs256)
        } catch let error as ModelError {
            throw error
        } catch {
            // The library's error may contain the key.
            throw ModelError(message: "is no \(algorithm.rawValue) key", pointer: pointer)
        }
    }

    /// A collection of the key alone.
    ///
    /// - Throws: ``ModelError``, or an error of the library, which may contain the key.
    private static func collection(
        of value: JSONValue, _ algorithm: TokenAlgorithm, isPrivate: Bool, kid: JWKIdentifier, at pointer: String
    ) async throws -> JWTKeyCollection {
        func problem(in member: String, _ message: String) -> ModelError {
            ModelError(message: message, pointer: "\(pointer)/\(member)")
        }
        func coordinate(_ member: String) throws(ModelError) -> String {
            guard try bytes(member, of: value, at: pointer).count == 32 else {
                throw problem(in: member, "expected 32 bytes")
            }
            return try text(member, of: value, at: pointer)
        }
        let collection = JWTKeyCollection()
        switch algorithm {
        case .hs256:
            let secret = try bytes("k", of: value, at: pointer)
            guard secret.count >= TokenKeys.minimumSecretBytes else {
                throw problem(
                    in: "k", "expected \(TokenKeys.minimumSecretBytes) bytes or more, found \(secret.count)")
            }
            // With a public key as the secret, every holder of the public key could sign.
            guard !secret.starts(with: "-----BEGIN".utf8) else {
                throw problem(in: "k", "is a PEM file, and no secret")
            }
            await collection.add(hmac: HMACKey(from: secret), digestAlgorithm: .sha256, kid: kid)
        case .es256:
            let publicKey = try ES256PublicKey(parameters: (try coordinate("x"), try coordinate("y")))
            if isPrivate {
                let key = try ES256PrivateKey(key: try coordinate("d"))
                guard key.publicKey == publicKey else {
                    throw problem(in: "d", "belongs to another public key")
                }
                await collection.add(ecdsa: key, kid: kid)
            } else {
                await collection.add(ecdsa: publicKey, kid: kid)
            }
        case .eddsa:
            let publicKey = try EdDSA.PublicKey(x: try coordinate("x"), curve: .ed25519)
            if isPrivate {
                let key = try EdDSA.PrivateKey(d: try coordinate("d"), curve: .ed25519)
                guard key.publicKey == publicKey else {
                    throw problem(in: "d", "belongs to another public key")
                }
                await collection.add(eddsa: key, kid: kid)
            } else {
                await collection.add(eddsa: publicKey, kid: kid)
            }
        }
        return collection
    }

    private static func text(
        _ member: String, of value: JSONValue, at pointer: String
    ) throws(ModelError) -> String {
        guard let text = value[member]?.stringValue else {
            throw ModelError(message: "expected a string", pointer: "\(pointer)/\(member)")
        }
        return text
    }

    private static func bytes(
        _ member: String, of value: JSONValue, at pointer: String
    ) throws(ModelError) -> [UInt8] {
        guard let bytes = [UInt8](base64URL: try text(member, of: value, at: pointer)) else {
            throw ModelError(message: "is not base64url without padding", pointer: "\(pointer)/\(member)")
        }
        return bytes
    }

    /// The algorithm of the key; nil for a key that does not verify tokens.
    private static func algorithm(of value: JSONValue, at pointer: String) throws(ModelError) -> TokenAlgorithm? {
        guard case .object = value else {
            throw ModelError(message: "expected an object, found \(value.kind.name)", pointer: pointer)
        }
        if let use = value["use"], use.stringValue != "sig" { return nil }
        let algorithm: TokenAlgorithm
        switch (value["kty"]?.stringValue, value["crv"]?.stringValue) {
        case ("oct", _): algorithm = .hs256
        case ("EC", "P-256"): algorithm = .es256
        case ("OKP", "Ed25519"): algorithm = .eddsa
        default: return nil
        }
        // The key may be restricted to another algorithm.
        if let named = value["alg"], named.stringValue != algorithm.rawValue { return nil }
        return algorithm
    }
}

// MARK: - Issuing

/// Tokens and keys for development and tests, in place of an identity provider.
extension TokenKeys {
    /// Signs a token.
    ///
    /// - Parameter keyID: id of the key to sign with; nil for the first that can sign.
    package func issue(
        app: String, user: String? = nil, scopes: [TokenScope], subject: String? = nil, issuer: String? = nil,
        audience: String? = nil, notBefore: Timestamp? = nil, expiresAt: Timestamp, keyID: String? = nil,
        now: Timestamp = Timestamp.now()
    ) async throws(ModelError) -> String {
        let candidates = ids.compactMap { keys[$0] }.filter { key in
            key.canSign && keyID.map { Text.equal($0, key.id) } ?? true
        }
        guard let key = candidates.first else {
            throw ModelError(
                message: keyID.map { "there is no private key \(Text.quoted($0)) among the keys" }
                    ?? "none of the keys can sign: they are public")
        }
        let claims = TokenClaims(
            app: app, user: user, scope: scopes.map(\.rawValue).joined(separator: " "), sub: subject, iss: issuer,
            aud: audience.map { AudienceClaim(value: $0) }, iat: now.seconds, nbf: notBefore?.seconds,
            exp: expiresAt.seconds, jti: String.randomID())
        do {
            return try await key.collection.sign(claims, kid: JWKIdentifier(string: key.id))
        } catch {
            throw ModelError(message: "the key \(key.id) cannot sign")
        }
    }

    /// A new key as a member of a JWKS, with its private part.
    package static func makeKey(_ algorithm: TokenAlgorithm, id: String) -> JSONValue {
        var object = JSONObject()
        object["kid"] = .string(id)
        object["use"] = "sig"
        object["alg"] = .string(algorithm.rawValue)
        switch algorithm {
        case .hs256:
            object["kty"] = "oct"
            object["k"] = .string(SymmetricKey(size: .bits256).withUnsafeBytes { String(base64URL: $0) })
        case .es256:
            let key = P256.Signing.PrivateKey()
            // 64 bytes: x, then y.
            let point = Array(key.publicKey.rawRepresentation)
            object["kty"] = "EC"
            object["crv"] = "P-256"
            object["x"] = .string(String(base64URL: point.prefix(32)))
            object["y"] = .string(String(base64URL: point.dropFirst(32)))
            object["d"] = .string(String(base64URL: key.rawRepresentation))
        case .eddsa:
            let key = Curve25519.Signing.PrivateKey()
            object["kty"] = "OKP"
            object["crv"] = "Ed25519"
            object["x"] = .string(String(base64URL: key.publicKey.rawRepresentation))
            object["d"] = .string(String(base64URL: key.rawRepresentation))
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

// MARK: - The file of the keys

/// The current keys, read again when their file changes. An unusable file leaves the keys unchanged and is logged once.
package final class TokenKeyStore: Sendable {
    package typealias Current = (keys: TokenKeys, revision: UInt64)

    private let read: @Sendable () async throws -> [UInt8]
    private let interval: Duration
    private let logger: Logger
    /// The keys, the hash of the content that was read last, usable or not, and the latest complaint about it.
    private let state = Mutex<(current: Current, seen: ContentHash?, complaint: String?)>(((.none, 0), nil, nil))

    /// - Parameters:
    ///   - interval: interval between reads of the file.
    ///   - read: reads the file, up to one byte more than ``TokenKeys/maximumBytes``, without blocking the thread.
    package init(
        interval: Duration = .seconds(5), logger: Logger,
        read: @escaping @Sendable () async throws -> [UInt8]
    ) {
        self.interval = interval
        self.logger = logger
        self.read = read
    }

    package func current() -> Current { state.withLock { $0.current } }

    /// Reads the keys for the first time.
    ///
    /// - Throws: ``ModelError`` or an error of reading if there are none that can be used.
    package func load() async throws {
        let bytes = try await read()
        adopt(try await TokenKeys(jwks: bytes), ContentHash(of: bytes))
    }

    /// Reads the file again and adopts its keys if it has changed.
    package func check() async {
        do {
            let bytes = try await read()
            let hash = ContentHash(of: bytes)
            guard state.withLock({ $0.seen != hash }) else { return }
            do throws(ModelError) {
                adopt(try await TokenKeys(jwks: bytes), hash)
            } catch {
                state.withLock { $0.seen = hash }
                complain("\(error)", isNew: true)
            }
        } catch {
            complain("\(error)")
        }
    }

    /// Watches the file until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            do { try await Task.sleep(for: interval) } catch { return }
            await check()
        }
    }

    private func adopt(_ keys: TokenKeys, _ hash: ContentHash) {
        let revision = state.withLock { state in
            state = ((keys, state.current.revision + 1), hash, nil)
            return state.current.revision
        }
        let ids: Logger.Metadata = [
            "keys": "\(keys.ids.joined(separator: " "))", "ignored": "\(keys.ignored.joined(separator: " "))",
        ]
        logger.notice(revision == 1 ? "keys of tokens read" : "keys of tokens replaced", metadata: ids)
    }

    /// Logs a problem with the file, once for each reason and each new file.
    private func complain(_ reason: String, isNew: Bool = false) {
        let isNews = state.withLock { state in
            defer { state.complaint = reason }
            return isNew || state.complaint != reason
        }
        guard isNews else { return }
        logger.error(
            "the keys of tokens cannot be replaced; those read before stay in force", metadata: ["error": "\(reason)"])
    }
}

// MARK: - Base64url

extension String {
    /// Base64 with the URL alphabet and without padding (RFC 4648, section 5).
    package init(base64URL bytes: some Sequence<UInt8>) {
        var text = Data(bytes).base64EncodedString()
        text.replace("+", with: "-")
        text.replace("/", with: "_")
        self.init(text.prefix { $0 != "=" })
    }
}

extension [UInt8] {
    /// Decodes the base64url of some bytes; nil for any other spelling of the same bytes.
    package init?(base64URL text: some StringProtocol) {
        let base64 = String(text).replacing("-", with: "+").replacing("_", with: "/")
        let padding = String(repeating: "=", count: (4 - base64.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: base64 + padding), String(base64URL: data) == text else { return nil }
        self = Array(data)
    }
}
