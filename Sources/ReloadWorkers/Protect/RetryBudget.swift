/// Keeps retries from multiplying the load on a provider that fails: those that fail are at most a fifth of first
/// attempts, in timelines over a sliding window, or a small number when there is little else.
///
/// A retry is paid for before it is made. One that succeeds is paid back, so that after an outage nothing waits for
/// first attempts to come in.
///
/// Pure: no clock.
struct RetryBudget: Hashable, Sendable {
    private let share: Double
    private let floor: Int
    private var firsts: SlidingSum
    private var retries: SlidingSum

    init(_ rules: ProtectionRules) {
        share = rules.retryShare
        floor = rules.retryFloor
        firsts = SlidingSum(over: rules.retryWindow)
        retries = SlidingSum(over: rules.retryWindow)
    }

    /// Timelines are asked for the first time.
    mutating func firstAttempts(_ count: Int, at time: Duration) {
        firsts.add(count, at: time)
    }

    /// How many timelines may be asked for once more now.
    func available(at time: Duration) -> Int {
        let allowed = max(floor, Int((Double(firsts.total(at: time)) * share).rounded(.down)))
        return max(0, allowed - retries.total(at: time))
    }

    /// Pays for as many of the wanted retries as there is budget for; answers how many.
    mutating func take(_ wanted: Int, at time: Duration) -> Int {
        let granted = min(wanted, available(at: time))
        if granted > 0 { retries.add(granted, at: time) }
        return granted
    }

    /// Retries that were paid for have succeeded, or were not made.
    mutating func payBack(_ count: Int, at time: Duration) {
        retries.takeBack(count, at: time)
    }
}
