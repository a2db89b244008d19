import Logging
import WidgetModel
import WidgetStore

/// Tells devices of changes: pushes one by one, webhooks in batches.
struct DeviceTeller: Sendable {
    let configuration: DeliveryConfiguration
    let apns: APNsClient
    let webhooks: WebhookClient
    let store: WidgetStore
    let directory: DirectoryCache
    let routes: RestingRoutes
    let statistics: DeliveryStatistics
    let logger: Logger

    // MARK: Pushes

    /// - Parameter now: the database's time.
    func push(to device: DueDevice, now: @Sendable () -> Timestamp) async throws -> DeliverySettlement {
        let route = device.route
        if let rest = routes.rest(of: route, at: now()) {
            return settle(DeliveryOutcome(verdict: .rest(after: nil)), device, at: now(), resting: rest)
        }
        let outcome: DeliveryOutcome
        switch try await answer(of: device) {
        case .success(let answer):
            statistics.count { $0.pushes[.answered(answer.effect), default: 0] += 1 }
            outcome = DeliveryOutcome(
                verdict: answer.verdict, answer: answer.status, reason: answer.reason.isEmpty ? nil : answer.reason)
            report(answer, device)
        case .failure(let problem):
            statistics.count { $0.pushes[problem.isOurs ? .unusable : .unanswered, default: 0] += 1 }
            outcome = DeliveryOutcome(
                verdict: problem.isOurs ? .retry(after: APNsAnswer.operatorsRest) : .rest(after: nil), answer: 0,
                reason: problem.description)
        }
        let time = now()
        switch outcome.verdict {
        case .rest(let delay):
            return settle(
                outcome, device, at: time, resting: routes.failed(route, at: time, retryAfter: delay))
        case .accepted:
            routes.succeeded(route)
            statistics.count { counts in
                counts.latencyCount += 1
                counts.latencySum += device.changedAt.map { (time - $0) / .seconds(1) } ?? 0
            }
        default: break
        }
        return settle(outcome, device, at: time)
    }

    /// Problem of a push that has no answer.
    private struct Problem: Error {
        let description: String
        /// Whether it cannot be sent at all: a token or a key cannot be used.
        let isOurs: Bool
    }

    private func answer(of device: DueDevice) async throws -> Result<APNsAnswer, Problem> {
        guard case .apns(let sealed, let environment, let topic) = device.channel else {
            return .failure(Problem(description: "no APNs token", isOurs: true))
        }
        do {
            let owner = DeviceTokenKeys.Owner(appID: device.appID, user: device.user, device: device.device)
            guard let keys = configuration.tokenKeys else { throw DeviceTokenKeys.Unreadable.unknownKey(sealed.keyID) }
            let address = APNsAddress(
                token: try keys.open(sealed, for: owner), environment: environment, topic: topic)
            return .success(
                try await apns.send(
                    APNsPush(
                        app: device.app, address: address,
                        isUrgent: device.isUrgent(window: configuration.policy.window))))
        } catch let error as APNsClient.Unanswered {
            return .failure(Problem(description: error.description, isOurs: false))
        } catch let error as DeviceTokenKeys.Unreadable {
            return .failure(unusable(error.description, device))
        } catch let error as ProviderTokens.Unusable {
            return .failure(unusable(error.description, device))
        }
    }

    private func unusable(_ description: String, _ device: DueDevice) -> Problem {
        logger.error("a device cannot be told", metadata: ["app": "\(device.app)", "error": "\(description)"])
        return Problem(description: description, isOurs: true)
    }

    private func report(_ answer: APNsAnswer, _ device: DueDevice) {
        switch answer.effect {
        case .accepted, .slowDevice, .slowTopic: return
        case .forget:
            statistics.count { $0.forgotten += 1 }
        case .renew, .wrongDevice, .wrongKey, .broken:
            logger.error(
                "APNs refused a push",
                metadata: [
                    "app": "\(device.app)", "route": "\(device.route)", "status": "\(answer.status)",
                    "reason": "\(answer.reason)",
                ])
        }
    }

    // MARK: Webhooks

    /// Tells devices of one app by its webhook.
    func call(for devices: [DueDevice], now: @Sendable () -> Timestamp) async throws -> [DeliverySettlement] {
        guard let first = devices.first else { return [] }
        func settleAll(_ outcome: DeliveryOutcome, resting rest: Timestamp? = nil) -> [DeliverySettlement] {
            let time = now()
            return devices.map { settle(outcome, $0, at: time, resting: rest) }
        }
        if case .webhook(isDisabled: true) = first.channel {
            return settleAll(DeliveryOutcome(verdict: .rest(after: nil), parks: true))
        }
        if let rest = routes.rest(of: first.route, at: now()) {
            return settleAll(DeliveryOutcome(verdict: .rest(after: nil)), resting: rest)
        }
        let app = try await directory.directory(maximumAge: .seconds(5)).apps[first.app]
        guard let app, let url = configuration.webhooks[first.app] else {
            let reason = "delivery.webhooks has no URL of the app"
            logger.error("a device cannot be told", metadata: ["app": "\(first.app)", "error": "\(reason)"])
            let outcome = DeliveryOutcome(
                verdict: .retry(after: APNsAnswer.operatorsRest), answer: 0, reason: reason)
            return settleAll(outcome)
        }
        let widgets = Dictionary(
            grouping: try await store.query(.readDeliveredWidgets(of: devices.map(\.id))), by: \.registration)
        let answer = try await webhooks.send(devices.map { ($0, widgets[$0.id] ?? []) }, to: url, of: app)
        if answer.isAccepted {
            statistics.count { $0.webhookDevices += devices.count }
            if routes.succeeded(first.route) { _ = try await store.query(.recordWebhookSuccess(appID: first.appID)) }
            return settleAll(DeliveryOutcome(verdict: .accepted, answer: answer.status))
        }
        statistics.count { $0.webhookFailures += devices.count }
        let problem = answer.problem ?? ""
        let isDisabled =
            try await store.query(
                .recordWebhookFailure(
                    appID: first.appID, error: problem, patience: configuration.webhookPatience)
            ).first ?? false
        let rest = routes.failed(first.route, at: now(), retryAfter: answer.retryAfter)
        logger.warning(
            isDisabled ? "a webhook is disabled: it has failed for too long" : "a webhook fails",
            metadata: ["app": "\(first.app)", "error": "\(problem)"])
        let outcome = DeliveryOutcome(
            verdict: .rest(after: nil), answer: answer.status, reason: problem, parks: isDisabled)
        return settleAll(outcome, resting: rest)
    }

    // MARK: Settlements

    func settle(
        _ outcome: DeliveryOutcome, _ device: DueDevice, at time: Timestamp, resting rest: Timestamp? = nil
    ) -> DeliverySettlement {
        outcome.settlement(
            of: device, at: time, resting: rest, policy: configuration.policy, jitter: .random(in: 0...1))
    }
}
