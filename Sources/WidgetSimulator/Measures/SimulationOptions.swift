// SPDX-License-Identifier: Apache-2.0

package import WidgetModel

/// Span and inputs of a simulation.
package struct SimulationOptions: Sendable {
    /// Begin of what is counted.
    package let from: Timestamp
    package let end: Timestamp
    /// Days before `from` that are simulated and not counted, in which widgets leave their learning period.
    package var warmUpDays = 3
    package var seed: UInt64 = 1
    /// Number of synthetic people.
    package var people = 0
    /// Mean looks of a person at the home screen on a day, without those by habit.
    package var looks = 12.0
    /// Share of people who keep widgets of one app in a stack.
    package var stacks = 0.5
    /// Whether every decision is kept.
    package var keepsDecisions = false
    /// Whether the events that people made are kept.
    package var keepsEvents = false
    /// Limits of rotations and suggestions.
    package var rotation = RotationPolicy()
    /// Times of real publications, in ascending order, to compare with.
    package var publications: [TimelineID: [Timestamp]] = [:]
    /// Times of real fetches, likewise.
    package var realFetches: [TimelineID: [Timestamp]] = [:]

    package init(from: Timestamp, days: Int) {
        self.init(from: from, end: from + .seconds(days * 86_400))
    }

    package init(from: Timestamp, end: Timestamp) {
        self.from = from
        self.end = end
    }

    /// Begin of the warm-up.
    package var begin: Timestamp { from - .seconds(warmUpDays * 86_400) }
    /// Days, the last one not always whole.
    package var days: Int { max(1, Int((end - from).wholeMicroseconds + 86_399_999_999) / 86_400_000_000) }
}
