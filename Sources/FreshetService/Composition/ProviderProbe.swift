import AsyncHTTPClient
package import ReloadWorkers
import WidgetAPI
import WidgetModel

/// Sends providers signed requests for no timelines, by the rules of egress.
package struct ProviderProbe: Sendable {
    private let settings: Settings

    package init(_ settings: Settings) {
        self.settings = settings
    }

    /// Lends a client.
    ///
    /// - Throws: ``CommandFailure`` or `EgressPolicy.InvalidPattern` for settings that cannot be used; errors of `body`.
    package func withClient<Value>(_ body: (ProviderClient) async throws -> Value) async throws -> Value {
        let limits = try settings.connectionLimits()
        let egress = EgressGuard(try EgressPolicy(allowing: settings.providers.allowPrivateNetworks))
        let configuration = ProviderClient.configuration(egress: egress, limits: limits)
        return try await HTTPClient.withHTTPClient(configuration: configuration) { http in
            try await body(ProviderClient(http: http, egress: egress))
        }
    }

    /// - Throws: `ProviderFailure`, `CancellationError`.
    package static func ask(
        _ url: String, secrets: [[UInt8]], timeout: Duration, with client: ProviderClient
    ) async throws {
        let body: JSONValue = ["requests": .array([])]
        _ = try await client.fetch(
            ProviderCall(
                url: url, secrets: secrets, body: body.encoded, timeout: timeout, maximumResponseBytes: 1 << 20))
    }

    func trial(_ url: String, secrets: [[UInt8]]) async -> ProviderTrial {
        do {
            try await withClient { try await Self.ask(url, secrets: secrets, timeout: .seconds(10), with: $0) }
            return ProviderTrial()
        } catch let failure as ProviderFailure {
            return ProviderTrial(reason: failure.reason.rawValue, message: failure.message, status: failure.status)
        } catch {
            return ProviderTrial(reason: "settings", message: "the API's own settings of providers cannot be used")
        }
    }
}
