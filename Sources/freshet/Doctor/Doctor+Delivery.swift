import FreshetService
import PostgresClient
import WidgetDelivery
import WidgetModel
import WidgetStore

extension Doctor {
    /// Compares the keys and webhooks of the settings with the registered devices, and has Apple's push service check
    /// the keys, the topics and, by the tokens' age, this machine's clock.
    func checkDelivery(_ pool: PostgresPool) async throws -> [Finding] {
        try await requireMigrations("delivery", pool)
        let (configuration, probe): (DeliveryConfiguration, APNsProbe)
        do throws(CommandFailure) {
            (configuration, probe) = (try settings.deliveryConfiguration(), try APNsProbe(settings))
        } catch {
            throw Finding.problem("delivery", error.message, "let this user read the key as Apple issued it")
        }
        let routes = try await pool.query(.registeredRoutes()).filter { concerns($0.app) }
        guard !routes.isEmpty else { throw Finding.skipped("delivery", "no devices are registered") }
        var found: [Finding] = []
        for route in routes { check(route, configuration, &found) }
        for topic in Set(routes.compactMap(APNsTopic.init)) where configuration.apnsKeys[topic.app] != nil {
            let result = await probe.ask(app: topic.app, topic: topic.topic, topic.environment)
            check(result, of: topic, &found)
        }
        for hook in try await pool.query(.failingWebhooks()) where concerns(hook.app) {
            let state = hook.disabledAt == nil ? "fails" : "is disabled"
            found.warning(
                "delivery", "the webhook of \(hook.app) \(state): \(hook.error)",
                "repair the backend, then `freshet devices resume --app \(hook.app)`")
        }
        if found.isEmpty { found.ok("delivery", "every registered device has an accepted key, or a webhook") }
        return found
    }

    private func check(_ route: RegisteredRoute, _ configuration: DeliveryConfiguration, _ found: inout [Finding]) {
        let devices = NumberText.counted(route.devices, "device")
        if let topic = route.topic {
            if configuration.apnsKeys[route.app] == nil {
                found.problem(
                    "delivery",
                    "\(devices) of \(route.app) cannot be notified: delivery.apnsKeys has no key of the app",
                    "add \(route.app)=TEAM/KEY/path of the .p8 file, where the role delivery runs")
            }
            if settings.registrationRules.problem(ofTopic: topic, app: route.app) != nil {
                found.warning(
                    "delivery", "\(devices) of \(route.app) have the topic \(topic), of another bundle",
                    "register them with \(route.app)\(APNsAddress.topicSuffix), or add the bundle id to delivery.bundleIDs"
                )
            }
        } else if configuration.webhooks[route.app] == nil {
            found.problem(
                "delivery", "\(devices) of \(route.app) cannot be notified: delivery.webhooks has no URL of the app",
                "add \(route.app)=https://…, where the role delivery runs")
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
                isMost ? .problem("delivery", message, advice) : .warning("delivery", message, advice))
        }
        if let key = route.tokenKey, settings.delivery.tokenKeys[key] == nil {
            found.problem(
                "delivery",
                "\(devices) of \(route.app) have tokens sealed with key \(Text.quoted(key)), which is missing",
                "put the key back into delivery.tokenKeys: without it the tokens are lost")
        }
    }

    private func check(_ result: APNsProbe.Result, of topic: APNsTopic, _ found: inout [Finding]) {
        switch result {
        case .works: break
        case .refused(let reason):
            found.problem(
                "delivery", "APNs refuses the key of \(topic.app) for \(topic.topic): \(reason)",
                "compare team, key id, .p8 file and topic in delivery.apnsKeys with Apple's account page")
        case .wrongClock:
            found.problem(
                "delivery", "APNs finds the provider token of \(topic.app) expired",
                "correct the clock of this machine")
        case .unanswered(let error):
            found.problem(
                "delivery", "APNs cannot be asked about \(topic.topic): \(error)",
                "allow egress to api.push.apple.com, port 443, or see delivery.trustRoots")
        }
    }
}

/// A topic of an app at one of Apple's servers.
private struct APNsTopic: Hashable {
    let app: String
    let topic: String
    let environment: APNsAddress.Environment

    init?(_ route: RegisteredRoute) {
        guard let topic = route.topic, let environment = route.environment else { return nil }
        (app, self.topic, self.environment) = (route.app, topic, environment)
    }
}
