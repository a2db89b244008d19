// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

extension Tag {
    @Tag static var chaos: Self
}

/// Real processes, a real PostgreSQL, Kafka over TCP, faults by a seeded schedule, and a checker that observes only
/// from outside (see Tests/README.md, "Chaos"). Without FRESHET_CHAOS_MODE these are the short runs of every test.
@Suite(.tags(.chaos), .serialized)
struct ChaosTests {
    private static let options = ChaosOptions.environment()

    @Test(
        "Every invariant holds under a short schedule of faults", .enabled(if: options.mode == nil),
        .timeLimit(.patience))
    func short() async throws {
        let report = try await ChaosRun(options: Self.options, label: "seed \(Self.options.seed)").run()
        Self.end(report)
    }

    @Test(
        "Every invariant holds after all processes are killed three times", .enabled(if: options.mode == nil),
        .timeLimit(.patience))
    func killed() async throws {
        var options = Self.options
        options.rounds = 3
        let report = try await KillAll.run(options)
        Self.end(report)
    }

    @Test(
        "Every invariant holds in each situation that the short run does not contain",
        .enabled(if: options.mode == nil), .timeLimit(.patience), arguments: Scenario.separate)
    func scenario(_ scenario: Scenario) async throws {
        Self.end(try await scenario.run(Self.options))
    }

    @Test(
        "Every invariant holds in each situation of deploy/local/chaos --scenarios",
        .enabled(if: options.mode == .scenarios), .timeLimit(.minutes(60)), arguments: Scenario.all)
    func longScenario(_ scenario: Scenario) async throws {
        guard Self.options.scenarios.isEmpty || Self.options.scenarios.contains(scenario.name) else { return }
        Self.end(try await scenario.run(Self.options))
    }

    @Test(
        "Every invariant holds in a random run of deploy/local/chaos", .enabled(if: options.mode == .random),
        .timeLimit(.minutes(240)))
    func long() async throws {
        let report = try await ChaosRun(options: Self.options, label: "seed \(Self.options.seed)").run()
        Self.end(report)
    }

    @Test(
        "Every invariant holds after all processes are killed repeatedly", .enabled(if: options.mode == .killAll),
        .timeLimit(.minutes(240)))
    func killedAgainAndAgain() async throws {
        let report = try await KillAll.run(Self.options)
        Self.end(report)
    }

    @Test(
        "The checker notices every mutation", .enabled(if: options.mode == .mutations),
        .timeLimit(.minutes(60)))
    func mutations() async throws {
        let result = try await MutationRun.run(Self.options)
        ChaosOutput.write(result.table + "\n")
        #expect(result.isCaught)
    }

    private static func end(_ report: ChaosReport) {
        ChaosOutput.write(report.summary(seed: options.seed) + "\n")
        #expect(report.violations == 0, "\(report.details.joined(separator: "; "))")
    }
}

/// All processes are killed and PostgreSQL crashes at random moments, repeatedly.
enum KillAll {
    static func run(_ options: ChaosOptions) async throws -> ChaosReport {
        try await ChaosRun(options: options, label: "kill all, seed \(options.seed)") { stage in
            var random = SeededRandom(seed: options.seed, stream: "kill all")
            for round in 1...options.rounds {
                // Some waits are shorter than the seconds until partitions are assigned again, some much longer.
                let wait = random.seconds(0.5...14)
                try await Task.sleep(for: wait)
                stage.report.fault(
                    "SIGKILL of all, PostgreSQL crash",
                    "round \(round): all processes are killed \(ChaosReport.seconds(wait)) s after the last time")
                for member in stage.fleet.members { member.kill(startingAgainAfter: .milliseconds(100)) }
                try await stage.driver.crashDatabase(for: random.seconds(0...1))
            }
            // Recovery from the last round happens under load.
            try await Task.sleep(for: .seconds(5))
        }.run()
    }
}
