// SPDX-License-Identifier: Apache-2.0

import Synchronization
import Waiting
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
    func result(
        of device: DueDevice, at time: Timestamp, resting rest: RouteBackoff.Rest?, policy: DeliveryPolicy,
        jitter: Double
    ) -> DeliveryResult {
        var ledger = device.budget
        var eligibleAt: Timestamp?
        var retryAt: Timestamp?
        var isDone = false
        var forgets = false
        // Grows from the half, so that devices that failed together do not come again together.
        let backoff = policy.backoff.delay(attempt: max(device.attempts, attempts) + 1, jitter: jitter)
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
        return DeliveryResult(
            device: device, isDone: isDone, isTried: answer != nil,
            answer: answer ?? 0, reason: reason, apnsID: apnsID, environment: environment, forgets: forgets,
            parks: parks, eligibleAt: eligibleAt, budget: ledger, retryAt: retryAt)
    }
}

/// Topics and webhooks that fail: nothing is sent to them for a while, and then one request, whose result decides about
/// the others.
///
/// Holds an entry for each route that fails, and none for the others.
final class RouteBackoff: Sendable {
    /// Rest of a route after a failure.
    struct Rest: Hashable, Sendable {
        let until: Timestamp
        /// Whether the route has worked since the failure before.
        let isFirst: Bool
    }

    /// Upper limit of a requested delay, so that a wrong one does not end the notification of devices.
    static let longestRetryAfter = Duration.seconds(3_600)

    /// Number of failures; the time before which nothing is sent; and whether one request is under way, until then.
    private let failures = Mutex<[String: (count: Int, until: Timestamp, isProbing: Bool)]>([:])
    private let backoff: Backoff
    private let probeTime: Duration

    /// - Parameter probeTime: time after which a request that has not come back counts no longer.
    init(backoff: Backoff, probeTime: Duration) {
        self.backoff = backoff
        self.probeTime = probeTime
    }

    /// Asks to send to a route; nil: the caller may. Otherwise the time at which to ask again.
    func admit(_ route: String, at time: Timestamp) -> Timestamp? {
        failures.withLock { failures in
            guard let failure = failures[route] else { return nil }
            if failure.until > time {
                // The result of the request under way will be there long before its limit.
                return failure.isProbing ? min(failure.until, time + probeTime / 5) : failure.until
            }
            failures[route]?.until = time + probeTime
            failures[route]?.isProbing = true
            return nil
        }
    }

    /// Notes a failure, and returns the time at which to ask again. Results of what was sent before a rest began do not
    /// prolong it.
    func recordFailure(_ route: String, at time: Timestamp, retryAfter: Duration?) -> Rest {
        failures.withLock { failures in
            let earlier = failures[route]
            if let earlier, !earlier.isProbing, earlier.until > time, retryAfter == nil {
                return Rest(until: earlier.until, isFirst: earlier.count == 1)
            }
            let count = (earlier?.count ?? 0) + 1
            var until = time + max(min(retryAfter ?? .zero, Self.longestRetryAfter), backoff.bound(attempt: count))
            if let earlier, !earlier.isProbing { until = max(until, earlier.until) }
            failures[route] = (count, until, false)
            return Rest(until: until, isFirst: count == 1)
        }
    }

    /// Notes that a route works. Results of what was sent before a rest began do not end it.
    func recordSuccess(_ route: String, at time: Timestamp) {
        failures.withLock { failures in
            if let failure = failures[route], failure.isProbing || failure.until <= time { failures[route] = nil }
        }
    }
}
