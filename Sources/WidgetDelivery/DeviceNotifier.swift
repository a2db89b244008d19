// SPDX-License-Identifier: Apache-2.0

import Logging
import Metrics
import Synchronization
import WidgetModel
import WidgetStore

/// Notifies devices of changes: by a push each, or in batches by webhooks.
struct DeviceNotifier: Sendable {
    /// Failed attempts from which on a device counts as stuck: about half an hour of back-off.
    static let stuckAttempts = 10

    let configuration: DeliveryConfiguration
    let apns: APNsClient
    let webhooks: WebhookClient
    let store: WidgetStore
    let directory: DirectoryCache
    let routes: RouteBackoff
    let metrics: MetricRegistry
    let logger: Logger
    private let limiter = LogLimiter()

    // MARK: Pushes

    /// - Parameter now: the database's time.
    func push(to device: DueDevice, now: @Sendable () -> Timestamp) async throws -> Notified {
        guard case .apns(let token, let environment, let topic) = device.channel else { return .ended([]) }
        if let rest = routes.admit(device.route, at: now()) { return .resting(until: rest) }
        do {
            let result = try await send(token, environment, topic, to: device)
            let isAgain = result.answer.effect == .badToken && device.hasBadToken
            let isDead = isAgain ? await othersAreKnown(device) : false
            return .ended([end(result, device, isDead: isDead, at: now())])
        } catch let error as APNsClient.Unanswered {
            // The service may have accepted the push.
            count("unanswered", device)
            let time = now()
            let outcome = DeliveryOutcome(verdict: .rest(after: nil), answer: 0, reason: error.description)
            let rest = routes.recordFailure(device.route, at: time, retryAfter: nil)
            return .ended([end(outcome, device, at: time, resting: rest)])
        } catch let error
            where error is DeviceTokenKeys.Unreadable || error is ProviderToken.Unusable
        {
            count("unusable", device)
            reportUnusable("\(error)", of: device.app)
            let outcome = DeliveryOutcome(
                verdict: .retry(after: APNsAnswer.operatorsRest), answer: 0, reason: "\(error)")
            return .ended([end(outcome, device, at: now())])
        }
    }

    /// Whether the service knows most tokens of a device's topic. If not, the topic or the environment is wrong, and no
    /// token is dead. After an error of the database the token stays: the answer is recorded in any case.
    private func othersAreKnown(_ device: DueDevice) async -> Bool {
        do {
            return try await store.query(.knowsMostTokens(like: device.id)).first ?? false
        } catch {
            metrics.deliveryDatabaseErrors.increment()
            return false
        }
    }

    /// - Parameter effect: that of the answer, `unanswered`, or `unusable`: it could not be sent.
    private func count(_ effect: String, _ device: DueDevice, _ number: Int = 1) {
        metrics.deliveryPushes(device.app, effect).increment(by: number)
    }

    /// Sends a push. A token that is unknown for the first time is tried in the other environment, too.
    private func send(
        _ sealed: DeviceTokenKeys.Sealed, _ environment: APNsAddress.Environment, _ topic: String, to device: DueDevice
    ) async throws -> PushResult {
        guard let keys = configuration.tokenKeys else { throw DeviceTokenKeys.Unreadable.unknownKey(sealed.keyID) }
        let owner = DeviceTokenKeys.Owner(appID: device.appID, user: device.user, device: device.device)
        let token = try keys.open(sealed, for: owner)
        func send(to environment: APNsAddress.Environment) async throws -> APNsAnswer {
            let address = APNsAddress(token: token, environment: environment, topic: topic)
            return try await apns.send(APNsPush(app: device.app, address: address, isUrgent: device.isUrgent))
        }
        let answer = try await send(to: environment)
        guard answer.effect == .badToken, !device.hasBadToken, apns.hasSeparateEnvironments else {
            return PushResult(answer: answer)
        }
        do {
            return PushResult(answer: answer, inOther: try await send(to: environment.other), environment.other)
        } catch let error as APNsClient.Unanswered {
            return PushResult(answer: answer, isUndecidedBecause: "\(environment.other.rawValue): \(error)")
        }
    }

    /// - Parameter isDead: whether the service does not know the token again, but knows most others.
    private func end(
        _ result: PushResult, _ device: DueDevice, isDead: Bool, at time: Timestamp
    ) -> DeliveryResult {
        let answer = result.answer
        var outcome = DeliveryOutcome(
            verdict: answer.verdict, answer: answer.status, reason: result.reason, apnsID: answer.apnsID,
            environment: result.environment)
        if isDead { outcome.verdict = .forget(since: nil) }
        var rest: RouteBackoff.Rest?
        if case .rest(let delay) = outcome.verdict {
            rest = routes.recordFailure(device.route, at: time, retryAfter: delay)
        } else {
            // The service takes pushes for the topic, even if not this one.
            routes.recordSuccess(device.route, at: time)
        }
        if outcome.verdict == .accepted {
            if let changedAt = device.changedAt {
                metrics.deliverySeconds.increment(by: (time - changedAt) / .seconds(1))
            }
        }
        let ended = end(outcome, device, at: time, resting: rest)
        count((ended.forgets ? .forget : answer.effect).rawValue, device)
        report(result, device, isForgotten: ended.forgets)
        return ended
    }

    private func report(_ result: PushResult, _ device: DueDevice, isForgotten: Bool) {
        let (level, message): (Logger.Level, String)
        switch result.answer.effect {
        case _ where isForgotten: (level, message) = (.notice, "a device token is forgotten")
        case .accepted where result.environment != nil:
            (level, message) = (.notice, "a device token belongs to the other environment than the registered one")
        case .accepted, .slowDevice, .slowTopic, .forget: return
        case .renew, .badToken, .wrongDevice, .wrongKey, .broken: (level, message) = (.error, "APNs refused a push")
        }
        let (status, reason) = (result.answer.status, result.reason ?? "")
        guard let suppressed = limiter.admit("\(device.route) \(message) \(status) \(result.answer.reason)") else {
            return
        }
        logger.log(
            level: level, "\(message)",
            metadata: [
                "app": "\(device.app)", "route": "\(device.route)", "status": "\(status)", "reason": "\(reason)",
                "apnsID": "\(result.answer.apnsID ?? "")", "suppressed": "\(suppressed)",
            ])
    }

    private func reportUnusable(_ error: String, of app: String) {
        guard let suppressed = limiter.admit("\(app) \(error)") else { return }
        logger.error(
            "devices cannot be notified",
            metadata: ["app": "\(app)", "error": "\(error)", "suppressed": "\(suppressed)"])
    }

    // MARK: Webhooks

    /// Notifies devices of one app by its webhook.
    func callWebhook(for devices: [DueDevice], now: @Sendable () -> Timestamp) async throws -> Notified {
        guard let first = devices.first, first.pushTopic == nil else { return .ended([]) }
        // One delay for all, so that the batch is sent again as it was.
        let (jitter, attempts) = (Double.random(in: 0...1), devices.map(\.attempts).max() ?? 0)
        func endAll(_ outcome: DeliveryOutcome, resting rest: RouteBackoff.Rest? = nil) -> Notified {
            var outcome = outcome
            outcome.attempts = attempts
            let time = now()
            return .ended(devices.map { end(outcome, $0, at: time, resting: rest, jitter: jitter) })
        }
        if case .disabledWebhook = first.channel {
            return endAll(DeliveryOutcome(verdict: .rest(after: nil), parks: true))
        }
        if let rest = routes.admit(first.route, at: now()) { return .resting(until: rest) }
        let app = try await directory.directory(maximumAge: .seconds(5)).apps[first.app]
        guard let app, let url = configuration.webhooks[first.app] else {
            let reason = "delivery.webhooks has no URL of the app"
            count("unusable", first, devices.count)
            reportUnusable(reason, of: first.app)
            return endAll(
                DeliveryOutcome(verdict: .retry(after: APNsAnswer.operatorsRest), answer: 0, reason: reason))
        }
        let widgets = Dictionary(
            grouping: try await store.query(.readDeliveredWidgets(of: devices.map(\.id))), by: \.registration)
        let answer = try await webhooks.send(devices.map { ($0, widgets[$0.id] ?? []) }, to: url, of: app)
        if answer.isAccepted {
            metrics.deliveryWebhookDevices(first.app, "accepted").increment(by: devices.count)
            routes.recordSuccess(first.route, at: now())
            if case .failingWebhook = first.channel { await recordSuccess(of: first.appID) }
            return endAll(DeliveryOutcome(verdict: .accepted, answer: answer.status))
        }
        return endAll(
            try await recordFailure(answer, devices, of: first),
            resting: routes.recordFailure(first.route, at: now(), retryAfter: answer.retryAfter))
    }

    /// Clears the failures of an app's webhook. After an error of the database the next success clears them: the
    /// accepted devices are recorded in any case.
    private func recordSuccess(of app: Int32) async {
        do {
            _ = try await store.query(.recordWebhookSuccess(appID: app))
        } catch {
            metrics.deliveryDatabaseErrors.increment()
        }
    }

    private func recordFailure(
        _ answer: WebhookClient.Answer, _ devices: [DueDevice], of device: DueDevice
    ) async throws -> DeliveryOutcome {
        let stuck = devices.count { $0.attempts >= Self.stuckAttempts }
        metrics.deliveryWebhookDevices(device.app, "failed").increment(by: devices.count)
        metrics.deliveryWebhookDevices(device.app, "stuck").increment(by: stuck)
        let problem = answer.problem ?? ""
        let isDisabled =
            try await store.query(
                .recordWebhookFailure(
                    appID: device.appID, error: problem,
                    patience: answer.isGone ? nil : configuration.webhookPatience)
            ).first ?? false
        let message: Logger.Message =
            switch (isDisabled, answer.isGone) {
            case (true, true): "a webhook is disabled: it answered that it is gone"
            case (true, false): "a webhook is disabled: it has failed for too long"
            case (false, _): "a webhook fails"
            }
        logger.warning(
            message,
            metadata: ["app": "\(device.app)", "error": "\(problem)"])
        return DeliveryOutcome(
            verdict: .rest(after: nil), answer: answer.status, reason: problem, parks: isDisabled)
    }

    // MARK: Results

    func end(
        _ outcome: DeliveryOutcome, _ device: DueDevice, at time: Timestamp, resting rest: RouteBackoff.Rest? = nil,
        jitter: Double = .random(in: 0...1)
    ) -> DeliveryResult {
        outcome.result(of: device, at: time, resting: rest, policy: configuration.policy, jitter: jitter)
    }
}

/// Answer to a push, which may have been tried in both environments of Apple's service.
struct PushResult: Sendable {
    let answer: APNsAnswer
    /// Reason that is stored; nil: there is none. It is ``APNsAnswer/badDeviceToken`` only if no environment that could
    /// be asked knows the token.
    let reason: String?
    /// Environment that has taken the token in place of the assumed one.
    let environment: APNsAddress.Environment?

    private init(_ answer: APNsAnswer, reason: String?, environment: APNsAddress.Environment? = nil) {
        self.answer = answer
        self.reason = reason
        self.environment = environment
    }

    init(answer: APNsAnswer) {
        self.init(answer, reason: answer.reason.isEmpty ? nil : answer.reason)
    }

    /// - Parameter cause: reason why the other environment has not said whether it knows the token.
    init(answer: APNsAnswer, isUndecidedBecause cause: String) {
        self.init(answer, reason: "\(answer.reason); \(cause)")
    }

    /// Result of a push whose token the first environment does not know.
    init(answer: APNsAnswer, inOther second: APNsAnswer, _ other: APNsAddress.Environment) {
        switch second.effect {
        case .accepted:
            self.init(second, reason: nil, environment: other)
        // The token belongs to the other environment, where it is dead, or of another topic.
        case .forget, .wrongDevice: self.init(answer: second)
        // Unknown there, too, or the app's key is for the first environment only.
        case .badToken, .wrongKey: self.init(answer: answer)
        case .renew, .slowDevice, .slowTopic, .broken:
            self.init(
                answer: answer, isUndecidedBecause: "\(other.rawValue): status \(second.status) \(second.reason)")
        }
    }
}

/// Limits messages that very many devices may cause: one a minute for each subject, with the number of suppressed ones.
final class LogLimiter: Sendable {
    private static let interval = Duration.seconds(60)
    /// Most subjects that are remembered; beyond them all are forgotten.
    private static let limit = 1_000

    private let subjects = Mutex<[String: (loggedAt: ContinuousClock.Instant, suppressed: Int)]>([:])

    /// Number of messages that were suppressed since the last one; nil: this one is to be suppressed.
    func admit(_ subject: String, at time: ContinuousClock.Instant = .now) -> Int? {
        subjects.withLock { subjects in
            if let last = subjects[subject], last.loggedAt.duration(to: time) < Self.interval {
                subjects[subject]?.suppressed += 1
                return nil
            }
            if subjects.count >= Self.limit { subjects = [:] }
            let suppressed = subjects[subject]?.suppressed ?? 0
            subjects[subject] = (time, 0)
            return suppressed
        }
    }
}
