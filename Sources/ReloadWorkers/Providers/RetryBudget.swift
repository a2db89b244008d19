import WidgetModel

/// Keeps retries from multiplying the load on a provider that fails: those that fail are at most a fifth of first
/// attempts, in timelines over a sliding window, or a small number when there is little else.
///
/// A retry is paid for before it is made. One that succeeds is paid back, so that after an outage nothing waits for
/// first attempts to come in.
///
/// Pure: no clock.
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

    /// How many timelines may be asked for once more now.
    func available(at time: Duration) -> Int {
        max(0, allowed(at: time) - retries.total(at: time))
    }

    /// Timelines that were refused are given back. Answers how long they should stay away: longer the more of them there
    /// are for each that may be tried, so that claiming them in vain costs no more than trying them would.
    mutating func wait(after count: Int, at time: Duration) -> Duration {
        refused.add(count, at: time)
        let windows = Double(refused.total(at: time)) / Double(max(1, allowed(at: time)))
        return rules.retryWindow * min(Self.longestWait, 1 + windows)
    }

    /// In windows.
    private static let longestWait = 30.0

    private func allowed(at time: Duration) -> Int {
        max(rules.retryFloor, Int((Double(firsts.total(at: time)) * rules.retryShare).rounded(.down)))
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

/// A sum over the last while, in ten steps: what is older drops out.
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

    /// Takes off what was added, the newest first, down to nothing.
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
