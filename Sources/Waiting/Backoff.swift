// SPDX-License-Identifier: Apache-2.0

/// Exponential back-off with full jitter: a random delay between nothing and a bound that doubles up to a cap.
package struct Backoff: Hashable, Sendable {
    /// Bound of the first delay; positive.
    package var base: Duration
    /// Greatest bound.
    package var cap: Duration

    package init(base: Duration, cap: Duration) {
        self.base = base
        self.cap = cap
    }

    /// Longest delay after `attempt` failures.
    package func bound(attempt: Int) -> Duration {
        let base = max(0, Self.microseconds(base))
        let cap = max(0, Self.microseconds(cap))
        let doublings = min(max(0, attempt - 1), 62)
        let (bound, overflow) = base.multipliedReportingOverflow(by: 1 << Int64(doublings))
        return .microseconds(overflow ? cap : min(bound, cap))
    }

    /// The delay after `attempt` failures, counted from 1.
    package func delay(attempt: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        .microseconds(Int64.random(in: 0...Self.microseconds(bound(attempt: attempt)), using: &generator))
    }

    /// A delay between half of the bound and all of it, so that attempts are never close and still spread.
    ///
    /// - Parameter jitter: random number, clamped to 0 to 1.
    package func delay(attempt: Int, jitter: Double) -> Duration {
        bound(attempt: attempt) * (0.5 + 0.5 * min(1, max(0, jitter)))
    }

    package func delay(attempt: Int) -> Duration {
        var generator = SystemRandomNumberGenerator()
        return delay(attempt: attempt, using: &generator)
    }

    /// Whole microseconds, at most 100,000 years of them.
    private static func microseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        guard seconds.magnitude < 3_155_760_000_000 else { return seconds < 0 ? .min : .max }
        return seconds * 1_000_000 + attoseconds / 1_000_000_000_000
    }
}

extension Duration {
    /// Varies the duration by up to a fifth, so that processes do not work in step.
    package var jittered: Duration { self * Double.random(in: 0.8...1.2) }
}
