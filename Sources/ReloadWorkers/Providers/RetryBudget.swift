import WidgetModel

/// Limit of the load of retries on a failing provider: failed retries are at most a fifth of first attempts, in
/// timelines over a sliding window, or a small number.
///
/// A retry is paid before it is made, and paid back if it succeeds, so that after an outage nothing waits for first
/// attempts.
///
/// Pure: times are parameters.
struct RetryBudget: Hashable, Sendable {
    private let rules: ProtectionRules
    private var firsts: SlidingSum
    private var retries: SlidingSum
    private var refused: SlidingSum

    init(_ rules: ProtectionRules) {
        self.rules = rules
        firsts = SlidingSum(over: rules.retryWindow)
        retries = SlidingSum(over: rules.retryWindow)
        refused = SlidingSum(over: rules.retryWindow)
    }

    mutating func firstAttempts(_ count: Int, at time: Duration) {
        firsts.add(count, at: time)
    }

    /// Number of timelines that may be retried now.
    func available(at time: Duration) -> Int {
        max(0, allowed(at: time) - retries.total(at: time))
    }

    /// Notes refused timelines and returns their delay, which grows with the ratio of refused to allowed timelines:
    /// claiming them in vain must not cost more than retrying them.
    mutating func wait(after count: Int, at time: Duration) -> Duration {
        refused.add(count, at: time)
        let windows = Double(refused.total(at: time)) / Double(max(1, allowed(at: time)))
        return rules.retryWindow * min(Self.longestWait, 1 + windows)
    }

    /// Longest delay, in windows.
    private static let longestWait = 30.0

    private func allowed(at time: Duration) -> Int {
        max(rules.retryFloor, Int((Double(firsts.total(at: time)) * rules.retryShare).rounded(.down)))
    }

    /// Pays for wanted retries within the budget, and returns their number.
    mutating func take(_ wanted: Int, at time: Duration) -> Int {
        let granted = min(wanted, available(at: time))
        if granted > 0 { retries.add(granted, at: time) }
        return granted
    }

    /// Pays back retries that succeeded or were not made.
    mutating func payBack(_ count: Int, at time: Duration) {
        retries.takeBack(count, at: time)
    }
}

/// A sum over a sliding window of ten steps.
struct SlidingSum: Hashable, Sendable {
    private static let steps: Int64 = 10

    private struct Step: Hashable, Sendable {
        let index: Int64
        var value: Int
    }

    private let stepLength: Int64
    /// At most ten, oldest first.
    private var recent: [Step] = []

    init(over window: Duration) {
        stepLength = max(1, window.wholeMicroseconds / Self.steps)
    }

    mutating func add(_ value: Int, at time: Duration) {
        let index = advance(to: time)
        if let last = recent.indices.last, recent[last].index >= index {
            recent[last].value += value
        } else {
            recent.append(Step(index: index, value: value))
        }
    }

    /// Subtracts from the newest steps, down to zero.
    mutating func takeBack(_ value: Int, at time: Duration) {
        _ = advance(to: time)
        var left = value
        for step in recent.indices.reversed() where left > 0 {
            let part = min(left, recent[step].value)
            recent[step].value -= part
            left -= part
        }
    }

    func total(at time: Duration) -> Int {
        let oldest = time.wholeMicroseconds / stepLength - Self.steps
        return recent.reduce(0) { $1.index > oldest ? $0 + $1.value : $0 }
    }

    private mutating func advance(to time: Duration) -> Int64 {
        let index = time.wholeMicroseconds / stepLength
        recent.removeAll { $0.index <= index - Self.steps }
        return index
    }
}
