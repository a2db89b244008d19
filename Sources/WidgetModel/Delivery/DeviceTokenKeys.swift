// SPDX-License-Identifier: Apache-2.0

internal import Crypto
import JSON

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Keys that device tokens are encrypted with at rest (AES-256-GCM). The first one seals; all of them open, so that a
/// new key is put before the old one until every token has been sealed anew.
package struct DeviceTokenKeys: Hashable, Sendable {
    package struct Sealed: Hashable, Sendable {
        package let keyID: String
        /// Nonce, encrypted token and tag.
        package let bytes: [UInt8]

        package init(keyID: String, bytes: [UInt8]) {
            self.keyID = keyID
            self.bytes = bytes
        }
    }

    /// Error of a token that cannot be opened.
    package enum Unreadable: Error, Hashable, Sendable, CustomStringConvertible {
        case unknownKey(String)
        /// Another key of this id, or a row that was changed by hand.
        case broken(String)

        package var description: String {
            switch self {
            case .unknownKey(let id):
                "a device token is sealed with key \(Text.quoted(id)), which delivery.tokenKeys does not have"
            case .broken(let id): "a device token cannot be opened with key \(Text.quoted(id))"
            }
        }
    }

    package static let keyBytes = 32

    /// Keys with their ids, which are stored beside each token.
    private let keys: [(id: String, key: SymmetricKey)]

    /// - Parameter keys: at least one, each with 32 bytes.
    package init?(_ keys: [(id: String, secret: [UInt8])]) {
        guard !keys.isEmpty else { return nil }
        self.keys = keys.map { ($0.id, SymmetricKey(data: $0.secret)) }
    }

    package static func == (left: DeviceTokenKeys, right: DeviceTokenKeys) -> Bool {
        left.keys.elementsEqual(right.keys) { $0.id == $1.id && $0.key == $1.key }
    }

    package func hash(into hasher: inout Hasher) { for key in keys { hasher.combine(key.id) } }

    /// Id of the key that seals.
    package var current: String { keys[0].id }

    /// Seals a token for one device of one app: moved to another row, it does not open.
    package func seal(_ token: [UInt8], for owner: Owner) throws(Unreadable) -> Sealed {
        do {
            let box = try AES.GCM.seal(token, using: keys[0].key, authenticating: owner.bytes)
            return Sealed(keyID: current, bytes: box.combined.map { Array($0) } ?? [])
        } catch {
            throw .broken(current)
        }
    }

    package func open(_ sealed: Sealed, for owner: Owner) throws(Unreadable) -> [UInt8] {
        guard let key = keys.first(where: { $0.id == sealed.keyID }) else { throw .unknownKey(sealed.keyID) }
        do {
            let box = try AES.GCM.SealedBox(combined: sealed.bytes)
            return Array(try AES.GCM.open(box, using: key.key, authenticating: owner.bytes))
        } catch {
            throw .broken(sealed.keyID)
        }
    }

    /// Device that a token belongs to.
    package struct Owner: Hashable, Sendable {
        package let appID: Int32
        package let user: String
        package let device: String

        package init(appID: Int32, user: String, device: String) {
            self.appID = appID
            self.user = user
            self.device = device
        }

        fileprivate var bytes: [UInt8] { Array("\(appID)\u{0}\(user)\u{0}\(device)".utf8) }
    }

    /// SHA-256 of a token, by which registrations with the same one are found.
    package static func digest(of token: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: token)) }
}

extension DeviceTokenKeys {
    /// Reads keys as settings name them: `id=base64`. The key with the greatest id seals.
    ///
    /// - Returns: nil without keys.
    package init?(base64 secrets: [String: String]) {
        self.init(
            secrets.sorted { $0.key > $1.key }.compactMap { id, text in
                Self.secret(base64: text).map { (id, $0) }
            })
    }

    /// The 32 bytes of a key; nil for any other text.
    package static func secret(base64 text: String) -> [UInt8]? {
        guard let data = Data(base64Encoded: text), data.count == keyBytes else { return nil }
        return Array(data)
    }
}
