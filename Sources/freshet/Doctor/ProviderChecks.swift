// SPDX-License-Identifier: Apache-2.0

import FreshetService
import JSON
import PostgresClient
import ReloadWorkers
import WidgetDelivery
import WidgetModel
import WidgetStore

extension Doctor {
    private static let maximumProviders = 50
    private static let concurrency = 8

    /// Looks for stored definitions and families that this version cannot read.
    func checkKinds(_ pool: PostgresPool) async throws -> [Finding] {
        try await requireMigrations("kinds", pool)
        let directory = try await DirectoryCache(pool: pool).refresh()
        let unreadable = directory.unreadable.values.filter { concerns($0.app) }.sorted {
            ($0.app, $0.name) < ($1.app, $1.name)
        }
        var found: [Finding] = unreadable.map { kind in
            .problem(
                in: "kinds", "\(kind.message). Its timelines stand still; events that need the definition wait",
                advice:
                    "run the version that wrote it, or apply its manifest with this version (`freshet kinds apply`); then "
                    + "`freshet dead-letters replay --app \(kind.app) --cause unreadable`")
        }
        let families = WidgetFamily.allCases.map(\.rawValue)
        for kind in try await pool.query(.unknownFamilies(besides: families, app: app)) {
            found.append(
                .problem(
                    in: "kinds",
                    "\(kind.timelines) timelines and \(kind.widgets) widgets of \(kind.kind) of \(kind.app) have a family that "
                        + "this version does not know: they are not reloaded",
                    advice: "run the version that placed them: see FreshetTimelinesUnreadable in deploy/runbook.md"))
        }
        if found.isEmpty {
            found.append(.ok(in: "kinds", "the definitions and families of all registered kinds can be read"))
        }
        return found
    }

    /// Sends each provider a signed request that contains no timelines.
    func checkProviders(_ pool: PostgresPool) async throws -> [Finding] {
        try await requireMigrations("providers", pool)
        let directory = try await DirectoryCache(pool: pool).refresh()
        let kinds = directory.kinds.values.filter { !$0.isRetired && concerns($0.app) && directory.apps[$0.app] != nil }
        // Kinds of one provider have one request.
        let providers = Dictionary(kinds.map { ([$0.app, $0.definition.providerURL], $0) }) { first, _ in first }
        guard !providers.isEmpty else {
            throw Finding.warning(
                in: "providers", "no kinds are registered", advice: "register some: `freshet kinds apply kinds.yaml`")
        }
        let asked = providers.sorted { $0.key.lexicographicallyPrecedes($1.key) }.prefix(Self.maximumProviders)
        var found: [Finding]
        do {
            found = try await settings.withProviderClient { await ask(asked.map(\.value), directory, $0) }
        } catch {
            throw Finding.problem(in: "providers", "\(error)", advice: "fix the settings providers.…")
        }
        if providers.count > asked.count {
            found.append(.skipped(in: "providers", "\(providers.count - asked.count) more were not asked"))
        }
        return found
    }

    private func ask(
        _ kinds: [RegisteredKind], _ directory: KindDirectory, _ client: ProviderClient
    ) async -> [Finding] {
        let found = await withTaskGroup(of: (Int, Finding).self) { group in
            var found: [(Int, Finding)] = []
            for (index, kind) in kinds.enumerated() {
                if index >= Self.concurrency, let done = await group.next() { found.append(done) }
                group.addTask { (index, await probe(kind, directory, client)) }
            }
            for await done in group { found.append(done) }
            return found
        }
        return found.sorted { $0.0 < $1.0 }.map(\.1)
    }

    private func probe(
        _ kind: RegisteredKind, _ directory: KindDirectory, _ client: ProviderClient
    ) async -> Finding {
        let (app, url) = (kind.app, kind.definition.providerURL)
        do {
            let secrets = directory.apps[app]?.signingSecrets ?? []
            try await client.probe(url, secrets: secrets, timeout: timeLimit / 2)
            return .ok(in: "providers", "\(url) of \(app) answers, and accepts the signature")
        } catch let failure as ProviderFailure {
            return Self.judge(failure, of: url, app: app)
        } catch {
            return .skipped(in: "providers", "\(url) of \(app) was not asked to the end")
        }
    }

    static func judge(_ failure: ProviderFailure, of url: String, app: String) -> Finding {
        let what = "\(url) of \(app)"
        switch (failure.reason, failure.status) {
        case (.status, 401?), (.status, 403?):
            return .problem(
                in: "providers", "\(what) refuses the signature (status \(failure.status ?? 0))",
                advice:
                    "check that it has the app's signing secret (`freshet apps rotate-secret` makes a new one) and the right time"
            )
        case (.status, 404?), (.status, 405?):
            return .problem(
                in: "providers", "\(what) has no /timelines (status \(failure.status ?? 0))",
                advice: "check the provider's URL in the manifest: Freshet sends POST {url}/timelines")
        case (.status, let status?) where status >= 500 || status == 429:
            return .warning(in: "providers", "\(what) answers with status \(status)", advice: "see the provider's logs")
        case (.status, _), (.invalid, _):
            // The provider answers requests, though it may refuse one without timelines.
            return .ok(in: "providers", "\(what) answers (\(failure.message))")
        case (.refused, _):
            return .problem(
                in: "providers", "\(what) may not be called: \(failure.message)",
                advice: "add its network to providers.allowPrivateNetworks if it may be called")
        case (.unresolved, _):
            return .problem(
                in: "providers", "\(what): \(failure.message)",
                advice: "check the name in the manifest, and DNS on this machine")
        case (.timeout, _), (.connection, _):
            return .problem(
                in: "providers", "\(what) cannot be reached: \(failure.message)",
                advice: "check that it runs and that no firewall blocks it; its timelines keep their last content")
        default:
            return .warning(in: "providers", "\(what): \(failure.message)", advice: "see the provider's logs")
        }
    }

    /// Compares the keys and webhooks of the settings with the registered devices, and has Apple's push service check
    /// the keys, the topics and, by the tokens' age, this machine's clock.
    func checkDelivery(_ pool: PostgresPool) async throws -> [Finding] {
        try await requireMigrations("delivery", pool)
        let (configuration, limits): (DeliveryConfiguration, ConnectionLimits)
        do throws(CommandFailure) {
            (configuration, limits) = (try settings.deliveryConfiguration(), try settings.apnsLimits())
        } catch {
            throw Finding.problem(
                in: "delivery", error.message, advice: "let this user read the key as Apple issued it")
        }
        let routes = try await pool.query(.registeredRoutes()).filter { concerns($0.app) }
        guard !routes.isEmpty else { throw Finding.skipped(in: "delivery", "no devices are registered") }
        var found: [Finding] = []
        for route in routes { check(route, configuration, &found) }
        var asked: Set<[String]> = []
        for route in routes where configuration.apnsKeys[route.app] != nil {
            guard let topic = route.topic, let environment = route.environment,
                asked.insert([route.app, topic, environment.rawValue]).inserted
            else { continue }
            do {
                let answer = try await configuration.probe(
                    app: route.app, topic: topic, environment, limits: limits)
                if let finding = Self.judge(answer, of: topic, app: route.app) { found.append(finding) }
            } catch {
                found.append(Self.unanswered(topic, error: "\(error)"))
            }
        }
        for hook in try await pool.query(.failingWebhooks()) where concerns(hook.app) {
            let state = hook.disabledAt == nil ? "fails" : "is disabled"
            found.append(
                .warning(
                    in: "delivery", "the webhook of \(hook.app) \(state): \(hook.error)",
                    advice: "repair the backend, then `freshet devices resume --app \(hook.app)`"))
        }
        if found.isEmpty {
            found.append(.ok(in: "delivery", "every registered device has an accepted key, or a webhook"))
        }
        return found
    }

    private func check(_ route: RegisteredRoute, _ configuration: DeliveryConfiguration, _ found: inout [Finding]) {
        let devices = Figure.counted(route.devices, "device")
        if let topic = route.topic {
            if configuration.apnsKeys[route.app] == nil {
                found.append(
                    .problem(
                        in: "delivery",
                        "\(devices) of \(route.app) cannot be notified: delivery.apnsKeys has no key of the app",
                        advice: "add \(route.app)=TEAM/KEY/path of the .p8 file, where the role delivery runs"))
            }
            if settings.registrationRules.problem(ofTopic: topic, app: route.app) != nil {
                found.append(
                    .warning(
                        in: "delivery", "\(devices) of \(route.app) have the topic \(topic), of another bundle",
                        advice:
                            "register them with \(route.app)\(APNsAddress.topicSuffix), or add the bundle id to delivery.bundleIDs"
                    ))
            }
        } else if configuration.webhooks[route.app] == nil {
            found.append(
                .problem(
                    in: "delivery",
                    "\(devices) of \(route.app) cannot be notified: delivery.webhooks has no URL of the app",
                    advice: "add \(route.app)=https://…, where the role delivery runs"))
        }
        if route.badTokens > 0, let topic = route.topic, let environment = route.environment {
            let isMost = route.badTokens * 2 > route.devices
            let message =
                "APNs does not know the tokens of \(route.badTokens) of \(devices) of \(route.app) with the topic \(topic) "
                + "(\(environment.rawValue))"
            let advice =
                configuration.apnsURLs[.production] == configuration.apnsURLs[.sandbox]
                ? "set delivery.apnsSandboxURL, so that tokens can be tried in both environments"
                : "compare the topic with the bundle id of the app that the devices have"
            found.append(
                isMost
                    ? .problem(in: "delivery", message, advice: advice)
                    : .warning(in: "delivery", message, advice: advice))
        }
        if let key = route.tokenKey, settings.delivery.tokenKeys[key] == nil {
            found.append(
                .problem(
                    in: "delivery",
                    "\(devices) of \(route.app) have tokens sealed with key \(Text.quoted(key)), which is missing",
                    advice: "put the key back into delivery.tokenKeys: without it the tokens are lost"))
        }
    }

    private static func judge(_ answer: APNsAnswer, of topic: String, app: String) -> Finding? {
        switch answer.effect {
        case .accepted, .forget, .badToken, .wrongDevice: nil
        case .wrongKey:
            .problem(
                in: "delivery", "APNs refuses the key of \(app) for \(topic): \(answer.reason)",
                advice: "compare team, key id, .p8 file and topic in delivery.apnsKeys with Apple's account page")
        case .renew:
            .problem(
                in: "delivery", "APNs finds the provider token of \(app) expired",
                advice: "correct the clock of this machine")
        case .slowDevice, .slowTopic, .broken: unanswered(topic, error: "status \(answer.status) \(answer.reason)")
        }
    }

    private static func unanswered(_ topic: String, error: String) -> Finding {
        .problem(
            in: "delivery", "APNs cannot be asked about \(topic): \(error)",
            advice: "allow egress to api.push.apple.com, port 443, or see delivery.trustRoots")
    }
}
