import Simulation
import Testing

/// A short run of the simulation (`deploy/local/test --simulate` is the long one), the schedules that once found something,
/// and the proof that it notices.
@Suite("Simulation", .tags(.property), .timeLimit(.minutes(5)))
struct SimulationTests {
    @Test("whatever happens, the invariants hold", arguments: 0..<4)
    func schedules(part: UInt64) {
        for seed in part * 250..<(part + 1) * 250 {
            let schedule = Schedule(seed: seed)
            guard schedule.run() != nil else { continue }
            Issue.record("\(schedule.report())")
            return
        }
    }

    /// What each protection is for: a schedule that breaks an invariant without it, and none with it.
    ///
    /// Seeds stand for other schedules once the generator is changed: take new ones from `simulate --mutations` then.
    static let protections: [(Mutation, Schedule)] = [
        (.positionsUnchecked, Schedule(seed: 3)),
        (.positionsWithoutOffset, Schedule(seed: 34)),
        (.lifecycleIgnoresTime, Schedule(seed: 2)),
        (.saveUnfenced, Schedule(seed: 39)),
        (.completionUnfenced, Schedule(seed: 42)),
        (.publishBeforeSave, Schedule(seed: 1)),
        (.generationsAtCompletion, Schedule(seed: 1544)),
        (.consumersIgnoreRevision, Schedule(seed: 2053)),
        (.markMovesLeased, Schedule(seed: 78)),
        (.sweepSkipsLeased, Schedule(seed: 37_307)),
        // A worker dies between storing and publishing what had been published before something else was.
        (.saveKeepsPublishedHash, Schedule(seed: 19_520)),
        (.fencedPublisherIsSilent, Schedule(seed: 10_056)),
        (.collectionUnchecked, Schedule(seed: 3127)),
        (.failureForgetsRequests, Schedule(seed: 80)),
        (.completionForgetsLateRequests, Schedule(seed: 1544)),
        (.cancelTakesRequests, Schedule(seed: 61)),
        // It could not be published, and by the next claim nobody had looked at it for fourteen days.
        (.sleepUnpublished, Schedule(seed: 169_538)),
        // A reload of everyone stores something, Kafka is away, and an operator cancels the rest.
        (.cancelUnpublished, Schedule(seed: 1, steps: cancelledWhileUnpublished)),
        // The snapshot of a claim is older than the row that it locks.
        (.renderedGoesBack, Schedule(seed: 10_311)),
    ]

    private static let cancelledWhileUnpublished: [Step] = [
        .assign(partition: 0, to: 0), .produce(what: 0, of: 0, how: 2), .poll(ingest: 0, count: 4),
        .apply(ingest: 0, fault: .none, lag: 0), .endClaim(worker: 0, from: 0, limit: 8),
        .finish(worker: 0, pick: 0, how: 0), .pass(600),
        .produce(what: 9, of: 0, how: 3), .poll(ingest: 0, count: 4), .apply(ingest: 0, fault: .none, lag: 0),
        .endSweep(worker: 0, limit: 1), .endClaim(worker: 0, from: 0, limit: 8),
        .work(worker: 0, pick: 0, steps: 4, fault: .lostBefore, how: 1), .cancel(1),
    ]

    @Test("a protection that is switched off is noticed", arguments: protections)
    func mutations(mutation: Mutation, schedule: Schedule) {
        #expect(schedule.run(mutation: mutation) != nil, "\(mutation)")
        #expect(schedule.run() == nil, "\(mutation)")
    }

    /// How many seeds are enough for the protections that everything rests on, whatever the generator makes of them.
    @Test(
        "without it, one of the first seeds fails",
        arguments: [
            (Mutation.saveUnfenced, 1_000), (.completionUnfenced, 1_000), (.positionsUnchecked, 200),
            (.positionsWithoutOffset, 1_000), (.publishBeforeSave, 200), (.generationsAtCompletion, 5_000),
            (.lifecycleIgnoresTime, 200), (.markMovesLeased, 1_000), (.failureForgetsRequests, 1_000),
        ] as [(Mutation, UInt64)])
    func bounded(mutation: Mutation, seeds: UInt64) {
        #expect((0..<seeds).contains { Schedule(seed: $0).run(mutation: mutation) != nil }, "\(mutation)")
    }

    @Test("each protection has a schedule") func complete() {
        #expect(Set(Self.protections.map(\.0)) == Set(Mutation.allCases))
    }

    @Test("a report names the seed, and the fewest steps that fail the same way") func minimised() throws {
        let schedule = Schedule(seed: 39)
        let violation = try #require(schedule.run(mutation: .saveUnfenced))
        let least = schedule.minimised(mutation: .saveUnfenced)
        #expect(least.steps.count < 20)
        #expect(least.run(mutation: .saveUnfenced)?.invariant == violation.invariant)
        let report = schedule.report(mutation: .saveUnfenced)
        #expect(report.hasPrefix("seed 39: ") && report.contains("endClaim"))
    }
}
