import WidgetModel
import WidgetStore

/// Result of an attempt to notify a device, from which the stored state follows. Pure.
struct DeliveryOutcome: Sendable {
    var verdict: DeliveryVerdict
    /// HTTP status; 0: there was none; nil: nothing was sent.
    var answer: Int?
    var reason: String?
    /// The push service's id of the push.
    var apnsID: String?
    /// Environment in which the push service has taken the device's token, if it is not the one that was assumed.
    var environment: APNsAddress.Environment?
    /// Whether the device waits until its webhook is enabled again.
    var parks = false
    /// Most failed attempts of the devices of the same request, which wait as long as one another.
    var attempts = 0

    /// - Parameters:
    ///   - time: the database's time of the answer.
    ///   - rest: rest of the route after a failure.
    ///   - jitter: part of the device's back-off to wait, from 0 to 1.
    func settlement(
        of device: DueDevice, at time: Timestamp, resting rest: RouteBackoff.Rest?, policy: DeliveryPolicy,
        jitter: Double
    ) -> DeliverySettlement {
        var ledger = device.budget
        var eligibleAt: Timestamp?
        var retryAt: Timestamp?
        var isDone = false
        var forgets = false
        // Grows from the half, so that devices that failed together do not come again together.
        let backoff =
            policy.backoff.bound(attempt: max(device.attempts, attempts) + 1) * (0.5 + 0.5 * jitter)
        switch verdict {
        case .accepted:
            isDone = true
            eligibleAt = time
            if !device.isDeveloperMode { eligibleAt = policy.nextPush(after: time, spending: &ledger) }
        case .fetchedAlready: isDone = true
        case .retry(let delay): retryAt = time + max(min(delay ?? .zero, RouteBackoff.longestRetryAfter), backoff)
        // Only where the route works for others is the device's own number of failures the reason to wait longer.
        case .rest:
            retryAt = max(rest?.until ?? time, time + (rest?.isFirst ?? false ? backoff : policy.backoff.base * jitter))
        case .forget(let since):
            forgets = since.map { device.registeredAt <= $0 } ?? true
            if !forgets { retryAt = time + backoff }
        }
        return DeliverySettlement(
            device: device, isDone: isDone, isTried: answer != nil,
            answer: answer ?? 0, reason: reason, apnsID: apnsID, environment: environment, forgets: forgets,
            parks: parks, eligibleAt: eligibleAt, budget: ledger, retryAt: retryAt)
    }
}
