import Synchronization
import WidgetModel

/// Topics and webhooks that take nothing at present. As many entries as there are routes that fail.
final class RestingRoutes: Sendable {
    private struct Rest {
        var until: Timestamp
        var failures: Int
    }

    private let rests = Mutex<[String: Rest]>([:])
    private let backoff: Backoff

    init(backoff: Backoff) {
        self.backoff = backoff
    }

    /// Time until which a route rests; nil: it does not.
    func rest(of route: String, at time: Timestamp) -> Timestamp? {
        rests.withLock { rests in rests[route].flatMap { $0.until > time ? $0.until : nil } }
    }

    /// Lets a route rest, and returns until when. Failures of what was sent before the rest began do not prolong it.
    func failed(_ route: String, at time: Timestamp, retryAfter: Duration?) -> Timestamp {
        rests.withLock { rests in
            if let rest = rests[route], rest.until > time, retryAfter == nil { return rest.until }
            let failures = (rests[route]?.failures ?? 0) + 1
            let delay = max(retryAfter ?? .zero, backoff.bound(attempt: failures))
            let until = max(rests[route]?.until ?? time, time + delay)
            rests[route] = Rest(until: until, failures: failures)
            return until
        }
    }

    /// Returns whether the route had failed before.
    @discardableResult
    func succeeded(_ route: String) -> Bool {
        rests.withLock { $0.removeValue(forKey: route) != nil }
    }

    /// Number of routes that rest.
    func count(at time: Timestamp) -> Int { rests.withLock { $0.values.count { $0.until > time } } }
}
