package import ReloadWorkers
package import WidgetModel

/// Tells before a provider is registered whether the rules of egress permit it. The workers enforce them for each request.
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
