import JWTKit
package import WidgetModel

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Provider tokens of apps (ES256), each made anew within its hour: Apple refuses older ones, and also those that are made
/// more often than every 20 minutes.
///
/// Source: Apple, "Establishing a token-based connection to APNs".
package actor ProviderTokens {
    package enum Unusable: Error, Sendable, CustomStringConvertible {
        case noKey(app: String)
        case badKey(app: String)

        package var description: String {
            switch self {
            case .noKey(let app): "delivery.apnsKeys has no key of app \(Text.quoted(app))"
            case .badKey(let app): "the APNs key of app \(Text.quoted(app)) cannot sign: expected a P-256 key in PEM"
            }
        }
    }

    private struct Claims: JWTPayload {
        let iss: String
        let iat: Int64

        func verify(using algorithm: some JWTAlgorithm) throws {}
    }

    private struct Issued {
        let text: String
        let at: Timestamp
    }

    static let lifetime = Duration.seconds(50 * 60)
    static let shortestLifetime = Duration.seconds(20 * 60)

    private let keys: [String: APNsKey]
    private let now: @Sendable () -> Timestamp
    private var signers: [String: JWTKeyCollection] = [:]
    private var issued: [String: Issued] = [:]
    /// Tokens that are being made, each for all callers.
    private var signing: [String: Task<Result<String, Unusable>, Never>] = [:]

    package init(keys: [String: APNsKey], now: @escaping @Sendable () -> Timestamp = WallClock.now) {
        self.keys = keys
        self.now = now
    }

    /// The token of an app.
    ///
    /// - Parameter refused: a token that the service has found too old.
    package func token(of app: String, replacing refused: String? = nil) async throws(Unusable) -> String {
        let time = now()
        if let last = issued[app] {
            let age = time - last.at
            let isRefused = refused.map { Text.equal($0, last.text) } ?? false
            // A clock that went back makes a token of the future, which is refused.
            if age >= .zero, age < (isRefused ? Self.shortestLifetime : Self.lifetime) { return last.text }
        }
        guard let key = keys[app] else { throw .noKey(app: app) }
        let task =
            signing[app]
            ?? Task {
                defer { signing[app] = nil }
                return await sign(key, app, at: time)
            }
        signing[app] = task
        return try await task.value.get()
    }

    private func sign(_ key: APNsKey, _ app: String, at time: Timestamp) async -> Result<String, Unusable> {
        do {
            let signer = try await signer(key, app)
            let text = try await signer.sign(
                Claims(iss: key.teamID, iat: time.microseconds / 1_000_000), kid: JWKIdentifier(string: key.keyID))
            issued[app] = Issued(text: text, at: time)
            return .success(text)
        } catch {
            return .failure(.badKey(app: app))
        }
    }

    private func signer(_ key: APNsKey, _ app: String) async throws -> JWTKeyCollection {
        if let signer = signers[app] { return signer }
        let collection = JWTKeyCollection()
        await collection.add(
            ecdsa: try ES256PrivateKey(pem: key.privateKeyPEM), kid: JWKIdentifier(string: key.keyID))
        signers[app] = collection
        return collection
    }
}

extension APNsKey {
    /// Whether the private key can sign.
    package var isUsable: Bool { (try? ES256PrivateKey(pem: privateKeyPEM)) != nil }
}
