import WidgetModel
import WidgetStore

/// Result of an attempt to notify a device, from which the stored state follows. Pure.
struct DeliveryOutcome: Sendable {
    var verdict: DeliveryVerdict
    /// HTTP status; 0: there was none; nil: nothing was sent.
    var answer: Int?
    var reason: String?
    /// Whether the device waits until its webhook is enabled again.
    var parks = false
    /// Most failed attempts of the devices of the same request, which wait as long as one another.
    var attempts = 0

    /// - Parameters:
    ///   - time: the database's time of the answer.
    ///   - rest: time until which the route rests.
    ///   - jitter: part of the device's back-off to wait, from 0 to 1.
    func settlement(
        of device: DueDevice, at time: Timestamp, resting rest: Timestamp?, policy: DeliveryPolicy, jitter: Double
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
        case .fetchedAlready, .abandoned: isDone = true
        case .retry(let delay): retryAt = time + max(min(delay ?? .zero, RouteBackoff.longestRetryAfter), backoff)
        case .rest: retryAt = max(rest ?? time, time + backoff)
        case .forget(let since):
            forgets = since.map { device.registeredAt <= $0 } ?? true
            if !forgets { retryAt = time + backoff }
        }
        return DeliverySettlement(
            device: device, isDone: isDone, isAccepted: verdict == .accepted, isTried: answer != nil,
            answer: answer ?? 0, reason: reason,
            forgets: forgets, parks: parks, eligibleAt: eligibleAt, budget: ledger, retryAt: retryAt)
    }
}
