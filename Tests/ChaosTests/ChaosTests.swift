import Foundation
import TestSupport
import Testing

extension Tag {
    @Tag static var chaos: Self
}

/// Real processes, a real PostgreSQL, Kafka over TCP, faults by a seeded schedule, and a checker that looks only from
/// outside (see Tests/README.md, "Chaos"). Without FRESHET_CHAOS_MODE these are the short runs of every test.
@Suite(.tags(.chaos), .serialized)
struct ChaosTests {
    private static let options = ChaosOptions.environment()

    @Test(
        "every invariant holds under a short schedule of faults", .enabled(if: options.mode == nil),
        .timeLimit(.patience))
    func short() async throws {
        let report = try await ChaosRun(options: Self.options, label: "seed \(Self.options.seed)").run()
        Self.end(report)
    }

    @Test("all is killed, three times", .enabled(if: options.mode == nil), .timeLimit(.patience))
    func killed() async throws {
        var options = Self.options
        options.rounds = 3
        let report = try await KillAll.run(options)
        Self.end(report)
    }

    @Test("a run of deploy/local/chaos", .enabled(if: options.mode == .random), .timeLimit(.minutes(240)))
    func long() async throws {
        let report = try await ChaosRun(options: Self.options, label: "seed \(Self.options.seed)").run()
        Self.end(report)
    }

    @Test("all is killed, again and again", .enabled(if: options.mode == .killAll), .timeLimit(.minutes(240)))
    func killedAgainAndAgain() async throws {
        let report = try await KillAll.run(Self.options)
        Self.end(report)
    }

    @Test(
        "every mutation is noticed", .enabled(if: options.mode == .mutations),
        .timeLimit(.minutes(60)))
    func mutations() async throws {
        let result = try await MutationRun.run(Self.options)
        ChaosOutput.write(result.table + "\n")
        #expect(result.isCaught)
    }

    private static func end(_ report: ChaosReport) {
        ChaosOutput.write(report.summary(seed: options.seed) + "\n")
        #expect(report.violations == 0)
    }
}

/// Everything of Freshet is killed and PostgreSQL crashes at random moments, again and again.
enum KillAll {
    static func run(_ options: ChaosOptions) async throws -> ChaosReport {
        try await ChaosRun(options: options, label: "kill all, seed \(options.seed)") { stage in
            var random = SeededRandom(seed: options.seed, stream: "kill all")
            for round in 1...options.rounds {
                // Some before partitions are assigned again, which takes seconds, and some long after.
                let wait = random.seconds(0.5...14)
                try await Task.sleep(for: wait)
                stage.report.fault(
                    "SIGKILL of all, PostgreSQL crash",
                    "round \(round): all is killed \(ChaosReport.seconds(wait)) s after the last time")
                for member in stage.fleet.members { member.kill(startingAgainAfter: .milliseconds(100)) }
                try await stage.driver.crashDatabase(for: random.seconds(0...1))
            }
            // The last round is to be recovered from under load.
            try await Task.sleep(for: .seconds(5))
        }.run()
    }
}
