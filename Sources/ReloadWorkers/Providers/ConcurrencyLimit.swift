/// How many requests a provider takes at a time, found out by additive increase and multiplicative decrease (AIMD): one
/// more after each round of successes for which the limit was really used, half of it when the provider is overloaded.
///
/// Pure: no clock. Times are the worker's.
struct ConcurrencyLimit: Hashable, Sendable {
    let ceiling: Int
    private(set) var value: Int
    private var successes = 0
    private var cutAt: Duration?

    init(initial: Int, ceiling: Int) {
        self.ceiling = max(1, ceiling)
        value = max(1, min(initial, ceiling))
    }

    /// - Parameter wasUsed: there was no free slot left when the request began. A limit that is not reached tells nothing
    ///   of what the provider would take.
    mutating func succeeded(wasUsed: Bool) {
        guard wasUsed, value < ceiling else { return }
        successes += 1
        guard successes >= value else { return }
        successes = 0
        value += 1
    }

    /// The provider did not keep up with a request. Requests that were on their way when the limit was last cut tell of
    /// the limit before, so one round cuts once.
    ///
    /// - Returns: whether the limit is smaller now.
    mutating func overloaded(startedAt: Duration, at time: Duration) -> Bool {
        successes = 0
        if let cutAt, startedAt <= cutAt { return false }
        cutAt = time
        guard value > 1 else { return false }
        value /= 2
        return true
    }

    /// Begins again with one request, as for a provider that has just come back.
    mutating func restart(at time: Duration) {
        value = 1
        successes = 0
        cutAt = time
    }
}

/// Largest batch that a provider takes, as far as its refusals tell: the size that it took when more was too much, and one
/// more for each full batch since.
struct BatchSizeLimits: Hashable, Sendable {
    /// nil: no batch was too large lately.
    private var limit: Int?

    /// A limit of this size is no limit.
    private static let forgottenAt = 10_000

    func size(atMost maxBatch: Int) -> Int { max(1, min(maxBatch, limit ?? maxBatch)) }

    /// A request was too large, or its answer was; so many timelines are not, as far as is known.
    mutating func wasTooLarge(fitting count: Int) { limit = max(1, min(limit ?? count, count)) }

    mutating func succeeded(_ count: Int) {
        guard let known = limit, count >= known else { return }
        limit = known + 1 < Self.forgottenAt ? known + 1 : nil
    }

    var isEmpty: Bool { limit == nil }
}
