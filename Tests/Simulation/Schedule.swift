// SPDX-License-Identifier: Apache-2.0

import Randomness

/// A schedule of faults. The seed determines the world, the steps and the order of healing.
package struct Schedule: Sendable {
    package let seed: UInt64
    package private(set) var steps: [Step]
    private let world: SimulatedWorld
    private let healing: SeededGenerator

    package init(seed: UInt64) {
        self.seed = seed
        var random = SeededGenerator(seed: seed)
        world = SimulatedWorld(&random)
        healing = SeededGenerator(seed: random.next())
        var generator = StepGenerator(SeededGenerator(seed: random.next()))
        steps = generator.schedule()
    }

    /// Given steps in the world of the seed.
    package init(seed: UInt64, steps: [Step]) {
        self.init(seed: seed)
        self.steps = steps
    }

    /// - Returns: The first violated invariant.
    package func run(mutation: Mutation? = nil) -> Violation? {
        var simulation = Simulation(world: world, mutation: mutation, random: healing)
        return simulation.run(steps)
    }

    /// Journal of the run, line by line.
    package func journal(mutation: Mutation? = nil) -> [String] {
        var simulation = Simulation(world: world, mutation: mutation, random: healing, keepsJournal: true)
        _ = simulation.run(steps)
        return simulation.database.witness.journal ?? []
    }

    /// Shrinks the schedule by dropping ever smaller parts while it still violates the same invariant.
    package func minimised(mutation: Mutation? = nil) -> Schedule {
        guard let violation = run(mutation: mutation) else { return self }
        var best = self
        var size = steps.count / 2
        while size > 0 {
            var dropped = false
            var start = 0
            while start < best.steps.count {
                var next = best
                next.steps.removeSubrange(start..<min(start + size, best.steps.count))
                if next.run(mutation: mutation)?.invariant == violation.invariant {
                    best = next
                    dropped = true
                } else {
                    start += size
                }
            }
            if !dropped || size > 1 { size /= 2 }
        }
        return best
    }

    /// Describes the violation, its steps and the command that repeats them.
    package func report(mutation: Mutation? = nil) -> String {
        guard let violation = run(mutation: mutation) else { return "seed \(seed): every invariant held" }
        let least = minimised(mutation: mutation)
        let lines = least.steps.map { "  \($0)" }.joined(separator: "\n")
        let then = least.run(mutation: mutation).map { "\($0)" } ?? ""
        return """
            seed \(seed): \(violation)
            \(steps.count) steps, of which these \(least.steps.count) are enough:
            \(lines)
            then: \(then)
            """
    }
}
