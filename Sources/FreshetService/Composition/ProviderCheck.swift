// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import JSON
package import PostgresClient
package import ReloadWorkers
import Waiting
import WidgetAPI
package import WidgetDelivery
package import WidgetModel
import WidgetStore

// Checks before a provider is registered that the egress rules permit it. The workers enforce them for each request.
extension ProviderSettings {
    /// Reason why the provider must not be called; nil if it may be, or if no address of its host is found in time.
    ///
    /// Rules that cannot be read permit nothing; the workers do not start with them.
    ///
    /// - Parameter resolver: shared by related checks, since it remembers hosts and asks for each at most once at a
    ///   time.
    package func problem(
        of url: ProviderURL, resolver: HostResolver, patience: Duration = .seconds(2)
    ) async -> String? {
        let policy = (try? EgressPolicy(allowing: allowPrivateNetworks)) ?? EgressPolicy()
        let found = try? await withTimeLimit(patience) { try await resolver.addresses(of: url.host) }
        guard let found, !found.isEmpty, !policy.permits(found, host: url.host, port: url.port) else { return nil }
        return "the host has an address that is not public, and providers.allowPrivateNetworks does not list it"
    }

    /// - Throws: a problem for each provider of the manifest at `file` that must not be called.
    package func check(_ apps: [AppDefinition], file: String) async throws {
        var problems: [FileProblem] = []
        let resolver = HostResolver()
        for app in apps {
            for kind in app.kinds {
                guard let url = try? ProviderURL(kind.providerURL),
                    let reason = await problem(of: url, resolver: resolver)
                else { continue }
                problems.append(
                    FileProblem(
                        file: file, path: "\(app.name): kind \(kind.name): provider.url",
                        message: "\(kind.providerURL): \(reason)"))
            }
        }
        guard problems.isEmpty else { throw ManifestError(problems: problems) }
    }
}

// MARK: Single requests

extension Settings {
    /// Lends a client of providers, by the rules of egress.
    ///
    /// - Parameter now: time of day, for signatures.
    /// - Throws: ``CommandFailure`` for settings that cannot be used; errors of `body`.
    package func withProviderClient<Value>(
        now: @escaping @Sendable () -> Timestamp = Timestamp.now, _ body: (ProviderClient) async throws -> Value
    ) async throws -> Value {
        let limits = try connectionLimits()
        let egress = EgressGuard(try egressPolicy())
        let configuration = ProviderClient.configuration(egress: egress, limits: limits)
        return try await HTTPClient.withHTTPClient(configuration: configuration) { http in
            try await body(ProviderClient(http: http, egress: egress, now: now))
        }
    }

    /// Options of a parameter, as the API asks for them.
    ///
    /// - Throws: `ProviderFailure`; errors of ``withProviderClient(now:_:)``.
    package func options(
        _ question: OptionsQuestion, of kind: KindDefinition, app: String, pool: PostgresPool
    ) async throws -> IntentOptions {
        try await withProviderClient { client in
            try await ConfigurationClient(
                fetcher: client, directory: DirectoryCache(pool: pool), configuration: workerConfiguration(),
                logger: .ofCommands
            ).options(question, of: kind, app: app)
        }
    }

    /// Sends a test request. Returns nil if the provider accepts it.
    func probe(_ url: String, secrets: [[UInt8]]) async -> TrialFailure? {
        do {
            try await withProviderClient { try await $0.probe(url, secrets: secrets, timeout: .seconds(10)) }
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

extension ProviderClient {
    /// Sends a signed request for no timelines.
    ///
    /// - Throws: `ProviderFailure`, `CancellationError`.
    package func probe(_ url: String, secrets: [[UInt8]], timeout: Duration) async throws {
        let body: JSONValue = ["requests": .array([])]
        _ = try await fetch(
            ProviderCall(
                url: url, secrets: secrets, body: body.encoded, timeout: timeout, maximumResponseBytes: 1 << 20))
    }
}

extension DeliveryConfiguration {
    /// Sends a push to a token that no device has. Apple's push service checks the key and the topic of the app before
    /// the token.
    ///
    /// - Parameter limits: limits of connections to the push service.
    package func probe(
        app: String, topic: String, _ environment: APNsAddress.Environment, limits: ConnectionLimits
    ) async throws -> APNsAnswer {
        let keys = apnsKeys.filter { Text.equal($0.key, app) }
        let configuration = APNsAccounts.configuration(trusting: limits)
        return try await APNsAccounts.with(keys: keys, configuration: configuration) { accounts in
            let apns = APNsClient(accounts: accounts, urls: apnsURLs, timeout: timeout)
            let unknown = APNsAddress(token: Array(repeating: 0, count: 32), environment: environment, topic: topic)
            return try await apns.send(APNsPush(app: app, address: unknown, isUrgent: false))
        }
    }
}
