// SPDX-License-Identifier: Apache-2.0

import Simulation
import TestSupport
import Testing

/// A short run of the simulation (`deploy/local/test --simulate` is the long one), and checks that it detects defects.
@Suite("Simulation", .tags(.property), .timeLimit(.patience))
struct SimulationTests {
    @Test("The invariants hold in every simulated schedule", arguments: 0..<4)
    func schedules(part: UInt64) {
        for seed in part * 250..<(part + 1) * 250 {
            let schedule = Schedule(seed: seed)
            guard schedule.run() != nil else { continue }
            Issue.record("\(schedule.report())")
            return
        }
    }

    /// A seed that violates an invariant without the protection, and none with it.
    ///
    /// After a change of the generator seeds stand for other schedules: take new ones from `simulate --mutations`.
    static let protections: [(Mutation, UInt64)] = [
        (.positionsUnchecked, 9),
        (.positionsWithoutOffset, 75),
        (.lifecycleIgnoresTime, 5),
        (.listedWithoutList, 2),
        (.orphanCheckInMark, 90),
        (.revivalKeepsHash, 9),
        (.raiseDoesNotGoRound, 4),
        (.tokenBeforeLocks, 27349),
        (.walkIgnoresRaise, 41083),
        (.cancelDeletesLeased, 629997),
        (.nextFromSnapshot, 3),
        (.storeUnchecked, 16),
        (.requestsOfStore, 3),
        (.generationOfStore, 67),
        (.publishBeforeStore, 1),
        (.nothingKeepsAppointment, 9),
        (.waitLeavesPolicy, 41484),
        (.sleepUnchecked, 2338),
        (.rereadKeepsToken, 1824),
        (.collectInOneStatement, 5073),
        (.collectsRevived, 129406),
        (.endBeforeComparison, 34),
        (.comparedByRow, 568800),
        (.orphanComparesAsShown, 200),
        (.endWithoutToken, 2),
        (.ownStoreIsForeign, 2016),
        (.tombstoneOfContent, 153),
        (.tombstoneUnstored, 40453),
        (.discardKeepsAppointment, 2123),
        (.failureKeepsAppointment, 2_497_326),
        (.lookForgetsGeneration, 1_471_913),
    ]

    @Test("The simulation detects every disabled protection", arguments: protections)
    func mutations(mutation: Mutation, seed: UInt64) {
        #expect(Schedule(seed: seed).run(mutation: mutation) != nil, "\(mutation)")
        #expect(Schedule(seed: seed).run() == nil, "\(mutation)")
    }

    @Test("Each protection has a schedule that needs it") func complete() {
        #expect(Set(Self.protections.map(\.0)) == Set(Mutation.allCases))
    }

    @Test("A report has the seed and the fewest steps with the same failure") func minimised() throws {
        let seed = try #require(Self.protections.first { $0.0 == .endWithoutToken }?.1)
        let schedule = Schedule(seed: seed)
        let violation = try #require(schedule.run(mutation: .endWithoutToken))
        let least = schedule.minimised(mutation: .endWithoutToken)
        #expect(least.steps.count < 60)
        #expect(least.run(mutation: .endWithoutToken)?.invariant == violation.invariant)
        #expect(schedule.report(mutation: .endWithoutToken).hasPrefix("seed \(seed): "))
        #expect(!least.journal(mutation: .endWithoutToken).isEmpty)
    }
}
