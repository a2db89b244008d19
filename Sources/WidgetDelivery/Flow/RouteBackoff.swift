import Synchronization
import WidgetModel

/// Topics and webhooks that fail: nothing is sent to them for a while, and then one request, whose result decides about
/// the others.
///
/// Holds an entry for each route that fails, and none for the others.
final class RouteBackoff: Sendable {
    private struct Failure {
        var count: Int
        /// Nothing is sent before then.
        var until: Timestamp
        /// Whether one request is under way, until then.
        var isProbing = false
    }

    /// Rest of a route after a failure.
    struct Rest: Hashable, Sendable {
        let until: Timestamp
        /// Whether the route has worked since the failure before.
        let isFirst: Bool
    }

    /// Upper limit of a requested delay, so that a wrong one does not end the notification of devices.
    static let longestRetryAfter = Duration.seconds(3_600)

    private let failures = Mutex<[String: Failure]>([:])
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
    func failed(_ route: String, at time: Timestamp, retryAfter: Duration?) -> Rest {
        failures.withLock { failures in
            let earlier = failures[route]
            if let earlier, !earlier.isProbing, earlier.until > time, retryAfter == nil {
                return Rest(until: earlier.until, isFirst: earlier.count == 1)
            }
            let count = (earlier?.count ?? 0) + 1
            var until = time + max(min(retryAfter ?? .zero, Self.longestRetryAfter), backoff.bound(attempt: count))
            if let earlier, !earlier.isProbing { until = max(until, earlier.until) }
            failures[route] = Failure(count: count, until: until)
            return Rest(until: until, isFirst: count == 1)
        }
    }

    /// Notes that a route works. Results of what was sent before a rest began do not end it.
    func succeeded(_ route: String, at time: Timestamp) {
        failures.withLock { failures in
            if let failure = failures[route], failure.isProbing || failure.until <= time { failures[route] = nil }
        }
    }
}
