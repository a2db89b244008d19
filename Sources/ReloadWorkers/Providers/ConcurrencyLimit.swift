/// Limit of concurrent requests to a provider, by additive increase and multiplicative decrease (AIMD): one more after
/// each round of successes that used the limit, half when the provider is overloaded.
///
/// Pure: times are parameters.
struct ConcurrencyLimit: Hashable, Sendable {
    let ceiling: Int
    private(set) var value: Int
    private var successes = 0
    private var cutAt: Duration?

    init(initial: Int, ceiling: Int) {
        self.ceiling = max(1, ceiling)
        value = max(1, min(initial, ceiling))
    }

    /// Notes a success.
    ///
    /// - Parameter wasUsed: whether the request took the last slot; otherwise its success says nothing about the limit.
    mutating func succeeded(wasUsed: Bool) {
        guard wasUsed, value < ceiling else { return }
        successes += 1
        guard successes >= value else { return }
        successes = 0
        value += 1
    }

    /// Notes an overload and returns whether the limit was reduced. Requests from before the latest reduction are
    /// ignored, so that one round reduces once.
    mutating func overloaded(startedAt: Duration, at time: Duration) -> Bool {
        successes = 0
        if let cutAt, startedAt <= cutAt { return false }
        cutAt = time
        guard value > 1 else { return false }
        value /= 2
        return true
    }

    /// Starts again at one, for a provider after an outage.
    mutating func restart(at time: Duration) {
        value = 1
        successes = 0
        cutAt = time
    }
}

/// Largest batch that a provider accepts: the size accepted at the last refusal, and one more for each full batch
/// since.
struct BatchSizeLimits: Hashable, Sendable {
    /// Nil without a refusal lately.
    private var limit: Int?

    /// A limit of this size is no limit.
    private static let forgottenAt = 10_000

    func size(atMost maxBatch: Int) -> Int { max(1, min(maxBatch, limit ?? maxBatch)) }

    /// Notes that a request or its answer was too large.
    ///
    /// - Parameter count: size that fits, as far as known.
    mutating func wasTooLarge(fitting count: Int) { limit = max(1, min(limit ?? count, count)) }

    mutating func succeeded(_ count: Int) {
        guard let known = limit, count >= known else { return }
        limit = known + 1 < Self.forgottenAt ? known + 1 : nil
    }
}
