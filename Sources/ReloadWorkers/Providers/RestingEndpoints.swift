import Synchronization
import WidgetModel

/// Back-off of providers' optional endpoints, snapshots and placeholders, that are missing or have failed. Each process
/// learns it by itself.
final class RestingEndpoints: Sendable {
    private struct Key: Hashable {
        let provider: ProviderKey
        let endpoint: ProviderEndpoint
    }

    private struct Rest {
        /// End on the worker's clock.
        var end: Duration
        var failures: Int
    }

    private let rests = Mutex<[Key: Rest]>([:])
    private let capacity: Int
    /// Back-off after failures in a row.
    private static let failureRest = Backoff(base: .seconds(1), cap: .seconds(600))

    init(capacity: Int = 10_000) {
        self.capacity = capacity
    }

    func isResting(_ endpoint: ProviderEndpoint, of provider: ProviderKey, at time: Duration) -> Bool {
        rests.withLock { rests in
            guard let rest = rests[Key(provider: provider, endpoint: endpoint)] else { return false }
            return time < rest.end
        }
    }

    func succeeded(_ endpoint: ProviderEndpoint, of provider: ProviderKey) {
        rests.withLock { $0[Key(provider: provider, endpoint: endpoint)] = nil }
    }

    /// Notes a failure: the endpoint rests for the back-off, for the provider's `Retry-After`, or for `absence` if the
    /// provider does not have it.
    func failed(
        _ failure: ProviderFailure, _ endpoint: ProviderEndpoint, of provider: ProviderKey, at time: Duration,
        absence: Duration
    ) {
        rests.withLock { rests in
            let key = Key(provider: provider, endpoint: endpoint)
            let failures = (rests[key]?.failures ?? 0) + 1
            let rest =
                failure.saysAbsent
                ? absence : max(Self.failureRest.bound(attempt: failures), min(failure.retryAfter ?? .zero, absence))
            if rests[key] == nil, rests.count >= capacity { Self.makeRoom(in: &rests, at: time) }
            rests[key] = Rest(end: time + rest, failures: failures)
        }
    }

    private static func makeRoom(in rests: inout [Key: Rest], at time: Duration) {
        rests = rests.filter { time < $0.value.end }
        if let first = rests.min(by: { $0.value.end < $1.value.end })?.key { rests[first] = nil }
    }
}
