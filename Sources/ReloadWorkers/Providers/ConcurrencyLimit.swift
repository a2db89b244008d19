/// How many requests a provider takes at a time, found out by additive increase and multiplicative decrease (AIMD): one
/// more after each round of successes for which the limit was really used, half of it when the provider is overloaded.
///
/// Pure: no clock. Times are the worker's.
struct ConcurrencyLimit: Hashable, Sendable {
    let ceiling: Int
    private(set) var value: Int
    /// Successes of this round.
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
