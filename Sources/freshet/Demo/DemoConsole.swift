import Foundation
import FreshetService
import SampleProvider
import WidgetAPI
import WidgetModel

/// The console of a demo that keeps running.
enum DemoConsole {
    /// Creates the keys, and sets what the console needs.
    ///
    /// - Returns: an operator's token for the sample bank.
    static func configure(_ settings: inout Settings, in folder: URL) async throws -> String {
        let set: JSONValue = ["keys": .array([TokenIssuer.makeKey(.hs256, id: "demo")])]
        let keys = folder.appendingPathComponent("keys.json")
        guard
            FileManager.default.createFile(
                atPath: keys.path, contents: Data(set.encoded), attributes: [.posixPermissions: 0o600])
        else { throw CommandFailure(.failure, "cannot write \(keys.path)") }
        settings.api.keys = keys.path
        settings.console.enabled = true
        settings.console.key = Data((0..<ConsoleKey.minimumBytes).map { _ in UInt8.random(in: 0...255) })
            .base64EncodedString()
        return try await TokenIssuer(keys: TokenKeys(jwks: set.encoded)).issue(
            app: SampleWorld.bank, scopes: TokenScope.allCases, subject: "demo", issuer: settings.api.rules.issuer,
            audience: settings.api.rules.audience, expiresAt: WallClock.now() + .seconds(86_400))
    }
}
