// SPDX-License-Identifier: Apache-2.0

import JSON
import JWTKit
import WidgetModel

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Provider token of a key (ES256), made anew within its hour: Apple refuses older ones, and also those that are made
/// more often than every 20 minutes.
///
/// Source: Apple, "Establishing a token-based connection to APNs".
package actor ProviderToken {
    /// Error of an app without a key, or with one that cannot sign.
    package struct Unusable: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    private struct Claims: JWTPayload {
        let iss: String
        let iat: Int64

        func verify(using algorithm: some JWTAlgorithm) throws {}
    }

    static let lifetime = Duration.seconds(50 * 60)
    static let shortestLifetime = Duration.seconds(20 * 60)

    private let key: APNsKey
    private let now: @Sendable () -> Timestamp
    private var signer: JWTKeyCollection?
    private var issued: (text: String, at: Timestamp)?
    /// A token that is being made, for all callers.
    private var signing: Task<Result<String, Unusable>, Never>?

    init(_ key: APNsKey, now: @escaping @Sendable () -> Timestamp = Timestamp.now) {
        self.key = key
        self.now = now
    }

    /// The present token.
    ///
    /// - Parameter refused: a token that the service has found too old.
    package func text(replacing refused: String? = nil) async throws(Unusable) -> String {
        let time = now()
        if let issued {
            let age = time - issued.at
            let isRefused = refused.map { Text.equal($0, issued.text) } ?? false
            // A clock that went back makes a token of the future, which is refused.
            if age >= .zero, age < (isRefused ? Self.shortestLifetime : Self.lifetime) { return issued.text }
        }
        let task =
            signing
            ?? Task {
                defer { signing = nil }
                return await sign(at: time)
            }
        signing = task
        return try await task.value.get()
    }

    private func sign(at time: Timestamp) async -> Result<String, Unusable> {
        do {
            let text = try await signer().sign(
                Claims(iss: key.teamID, iat: time.microseconds / 1_000_000), kid: JWKIdentifier(string: key.keyID))
            issued = (text, time)
            return .success(text)
        } catch {
            return .failure(
                Unusable(
                    description:
                        "the APNs key \(Text.quoted(key.keyID)) of team \(Text.quoted(key.teamID)) cannot sign: expected a "
                        + "P-256 key in PEM"))
        }
    }

    private func signer() async throws -> JWTKeyCollection {
        if let signer { return signer }
        let collection = JWTKeyCollection()
        await collection.add(
            ecdsa: try ES256PrivateKey(pem: key.privateKeyPEM), kid: JWKIdentifier(string: key.keyID))
        signer = collection
        return collection
    }
}

/// Key of an app at Apple's push notification service.
package struct APNsKey: Sendable, Hashable {
    package let teamID: String
    package let keyID: String
    /// PKCS #8, as Apple's `.p8` files hold it.
    package let privateKeyPEM: String

    package init(teamID: String, keyID: String, privateKeyPEM: String) {
        self.teamID = teamID
        self.keyID = keyID
        self.privateKeyPEM = privateKeyPEM
    }
}

extension APNsKey {
    /// Whether the private key can sign.
    package var isUsable: Bool { (try? ES256PrivateKey(pem: privateKeyPEM)) != nil }
}
