import AsyncHTTPClient
import JSON
package import PostgresClient
package import ReloadWorkers
import WidgetAPI
package import WidgetModel
import WidgetStore

/// Checks before a provider is registered that the egress rules permit it. The workers enforce them for each request.
package struct ProviderCheck: Sendable {
    private let policy: EgressPolicy
    private let resolver: HostResolver
    private let patience: Duration

    /// Rules that cannot be read permit nothing; the workers do not start with them.
    package init(
        _ settings: ProviderSettings, resolver: HostResolver = HostResolver(), patience: Duration = .seconds(2)
    ) {
        policy = (try? EgressPolicy(allowing: settings.allowPrivateNetworks)) ?? EgressPolicy()
        self.resolver = resolver
        self.patience = patience
    }

    /// Reason why the provider must not be called; nil if it may be, or if no address of its host is found in time.
    package func problem(_ url: ProviderURL) async -> String? {
        guard let addresses = await addresses(of: url.host), !addresses.isEmpty,
            !policy.permits(addresses, host: url.host, port: url.port)
        else { return nil }
        return "the host has an address that is not public, and providers.allowPrivateNetworks does not list it"
    }

    private func addresses(of host: String) async -> [IPAddress]? {
        await withTaskGroup(of: [IPAddress]?.self) { group in
            group.addTask { [resolver] in try? await resolver.addresses(of: host) }
            group.addTask { [patience] in
                try? await Task.sleep(for: patience)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    /// - Throws: a problem for each provider of the manifest at `file` that must not be called.
    package func check(_ apps: [AppDefinition], file: String) async throws {
        var problems: [FileProblem] = []
        for app in apps {
            for kind in app.kinds {
                guard let url = try? ProviderURL(kind.providerURL), let reason = await problem(url) else { continue }
                problems.append(
                    FileProblem(
                        file: file, path: "\(app.name): kind \(kind.name): provider.url",
                        message: "\(kind.providerURL): \(reason)"))
            }
        }
        guard problems.isEmpty else { throw ManifestError(problems: problems) }
    }
}

/// Sends providers signed requests for no timelines, by the rules of egress.
package struct ProviderProbe: Sendable {
    private let settings: Settings

    package init(_ settings: Settings) {
        self.settings = settings
    }

    /// Lends a client.
    ///
    /// - Parameter now: time of day, for signatures.
    /// - Throws: ``CommandFailure`` for settings that cannot be used; errors of `body`.
    package func withClient<Value>(
        now: @escaping @Sendable () -> Timestamp = WallClock.now, _ body: (ProviderClient) async throws -> Value
    ) async throws -> Value {
        let limits = try settings.connectionLimits()
        let egress = EgressGuard(try settings.egressPolicy())
        let configuration = ProviderClient.configuration(egress: egress, limits: limits)
        return try await HTTPClient.withHTTPClient(configuration: configuration) { http in
            try await body(ProviderClient(http: http, egress: egress, now: now))
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

    /// Options of a parameter, as the API asks for them.
    ///
    /// - Throws: `ConfigurationFailure`; errors of ``withClient(_:)``.
    package func options(
        _ question: OptionsQuestion, of kind: KindDefinition, app: String, pool: PostgresPool
    ) async throws -> IntentOptions {
        try await withClient { client in
            try await ConfigurationClient(
                fetcher: client, directory: DirectoryCache(pool: pool), configuration: settings.workerConfiguration(),
                logger: LogSettings.ofCommands
            ).options(question, of: kind, app: app)
        }
    }

    /// Sends a test request. Returns nil if the provider accepts it.
    func trial(_ url: String, secrets: [[UInt8]]) async -> TrialFailure? {
        do {
            try await withClient { try await Self.ask(url, secrets: secrets, timeout: .seconds(10), with: $0) }
            return nil
        } catch let failure as ProviderFailure {
            return (reason: failure.reason.rawValue, message: failure.message, status: failure.status)
        } catch {
            return (
                reason: "settings", message: "the API's own settings of providers cannot be used", status: nil
            )
        }
    }
}
