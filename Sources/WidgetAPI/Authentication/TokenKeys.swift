import Crypto
import Foundation
import JSON
import JWTKit
package import Logging
import Synchronization
import WidgetModel

/// Signature algorithms of tokens. Each type of key has exactly one.
package enum TokenAlgorithm: String, CaseIterable, Sendable {
    case hs256 = "HS256"
    case es256 = "ES256"
    case eddsa = "EdDSA"
}

/// Error in a set of keys.
package struct TokenKeysError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Description without key material.
    package let message: String
    /// JSON pointer into the set.
    package let pointer: String

    package var description: String { pointer.isEmpty ? message : "\(pointer): \(message)" }
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
    package init(jwks bytes: [UInt8]) async throws(TokenKeysError) {
        guard bytes.count <= Self.maximumBytes else {
            throw TokenKeysError(message: "larger than \(Self.maximumBytes) bytes", pointer: "")
        }
        let document: JSONValue
        do throws(JSONError) {
            document = try JSONValue.parse(bytes, checksNumbers: false)
        } catch {
            throw TokenKeysError(message: "not JSON: \(error.message) at byte \(error.byteOffset)", pointer: "")
        }
        guard let list = document["keys"]?.arrayValue else {
            throw TokenKeysError(message: "expected an array of keys", pointer: "/keys")
        }
        guard list.count <= Self.maximumKeys else {
            throw TokenKeysError(message: "more than \(Self.maximumKeys) keys", pointer: "/keys")
        }
        var keys: [String: Key] = [:]
        var ignored: [String] = []
        for (index, value) in list.enumerated() {
            let reader = KeyReader(value: value, pointer: "/keys/\(index)")
            guard let algorithm = try reader.algorithm() else {
                ignored.append(value["kid"]?.stringValue.map { Text.printable($0, maximum: 64) } ?? "\(index)")
                continue
            }
            let key = try await reader.key(algorithm)
            guard keys.updateValue(key, forKey: key.id) == nil else {
                throw reader.problem("kid", message: "is the id of another key too")
            }
        }
        guard !keys.isEmpty else {
            throw TokenKeysError(
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

/// Reads one key of a set.
private struct KeyReader {
    let value: JSONValue
    let pointer: String

    func problem(_ member: String, message: String) -> TokenKeysError {
        TokenKeysError(message: message, pointer: "\(pointer)/\(member)")
    }

    /// The algorithm of the key; nil for a key that does not verify tokens.
    func algorithm() throws(TokenKeysError) -> TokenAlgorithm? {
        guard case .object = value else {
            throw TokenKeysError(message: "expected an object, found \(value.kind.name)", pointer: pointer)
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

    func key(_ algorithm: TokenAlgorithm) async throws(TokenKeysError) -> TokenKeys.Key {
        let id = try text("kid")
        guard (1...256).contains(id.utf8.count), id.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw problem("kid", message: "expected 1 to 256 bytes of printable ASCII without spaces")
        }
        let collection = JWTKeyCollection(defaultJWTParser: TokenClaims.parser)
        let (kid, parser) = (JWKIdentifier(string: id), TokenClaims.parser)
        let isPrivate = value["d"] != nil
        do {
            switch algorithm {
            case .hs256:
                let secret = HMACKey(from: try secretBytes())
                await collection.add(hmac: secret, digestAlgorithm: .sha256, kid: kid, parser: parser)
            case .es256:
                let publicKey = try ES256PublicKey(parameters: (try coordinate("x"), try coordinate("y")))
                if isPrivate {
                    let key = try ES256PrivateKey(key: try coordinate("d"))
                    guard key.publicKey == publicKey else {
                        throw problem("d", message: "belongs to another public key")
                    }
                    await collection.add(ecdsa: key, kid: kid, parser: parser)
                } else {
                    await collection.add(ecdsa: publicKey, kid: kid, parser: parser)
                }
            case .eddsa:
                let publicKey = try EdDSA.PublicKey(x: try coordinate("x"), curve: .ed25519)
                if isPrivate {
                    let key = try EdDSA.PrivateKey(d: try coordinate("d"), curve: .ed25519)
                    guard key.publicKey == publicKey else {
                        throw problem("d", message: "belongs to another public key")
                    }
                    await collection.add(eddsa: key, kid: kid, parser: parser)
                } else {
                    await collection.add(eddsa: publicKey, kid: kid, parser: parser)
                }
            }
            return TokenKeys.Key(
                id: id, algorithm: algorithm, collection: collection, canSign: isPrivate || algorithm == .hs256)
        } catch let error as TokenKeysError {
            throw error
        } catch {
            // The library's error may contain the key.
            throw TokenKeysError(message: "is no \(algorithm.rawValue) key", pointer: pointer)
        }
    }

    private func text(_ member: String) throws(TokenKeysError) -> String {
        guard let text = value[member]?.stringValue else { throw problem(member, message: "expected a string") }
        return text
    }

    private func bytes(_ member: String) throws(TokenKeysError) -> [UInt8] {
        guard let bytes = Base64URL.decode(try text(member)) else {
            throw problem(member, message: "is not base64url without padding")
        }
        return bytes
    }

    private func coordinate(_ member: String) throws(TokenKeysError) -> String {
        guard try bytes(member).count == 32 else { throw problem(member, message: "expected 32 bytes") }
        return try text(member)
    }

    private func secretBytes() throws(TokenKeysError) -> [UInt8] {
        let secret = try bytes("k")
        guard secret.count >= TokenKeys.minimumSecretBytes else {
            throw problem("k", message: "expected \(TokenKeys.minimumSecretBytes) bytes or more, found \(secret.count)")
        }
        // With a public key as the secret, every holder of the public key could sign.
        guard !secret.starts(with: "-----BEGIN".utf8) else {
            throw problem("k", message: "is a PEM file, and no secret")
        }
        return secret
    }
}

/// The current keys, read again when their file changes. An unusable file leaves the keys unchanged and is logged once.
package final class TokenKeyStore: Sendable {
    private struct State {
        var keys = TokenKeys.none
        var revision: UInt64 = 0
        /// Hash of the content that was read last, usable or not.
        var seen: ContentHash?
        var complaint: String?
    }

    private let read: @Sendable () async throws -> [UInt8]
    private let interval: Duration
    private let logger: Logger
    private let state = Mutex(State())

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

    package func current() -> (keys: TokenKeys, revision: UInt64) {
        state.withLock { ($0.keys, $0.revision) }
    }

    /// Reads the keys for the first time.
    ///
    /// - Throws: ``TokenKeysError`` or an error of reading if there are none that can be used.
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
            do throws(TokenKeysError) {
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
            state.keys = keys
            state.revision += 1
            state.seen = hash
            state.complaint = nil
            return state.revision
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

/// Base64 with the URL alphabet and without padding (RFC 4648, section 5).
package enum Base64URL {
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text = Data(bytes).base64EncodedString()
        text.replace("+", with: "-")
        text.replace("/", with: "_")
        return String(text.prefix { $0 != "=" })
    }

    /// Decodes what ``encode(_:)`` writes; nil for any other spelling of the same bytes.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let base64 = String(text).replacing("-", with: "+").replacing("_", with: "/")
        let padding = String(repeating: "=", count: (4 - base64.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: base64 + padding), encode(data) == text else { return nil }
        return Array(data)
    }
}
