// SPDX-License-Identifier: Apache-2.0

import Foundation
import WidgetStore

/// A defect that is injected from outside, a script that makes it take effect, and the invariants that it violates.
struct Mutation: Sendable {
    let name: String
    /// SQL that changes functions and triggers of the run's database.
    var sql: String?
    /// Changes to the text of statements on the wire.
    var rewrites: [TextRewrite] = []
    let invariants: Set<Invariant>
    let script: @Sendable (ChaosRun.Stage) async throws -> Void

    static let all = [
        nextFromClaim, unlisted, listedLeft, storeWithoutRevision, positions, deviceUnlisted, planNotDue,
    ]

    /// A store computes the next look without the row's requests: those during the fetch have no appointment.
    private static let nextFromClaim = Mutation(
        name: "nextFromClaim",
        rewrites: StoreTexts.requests.map {
            TextRewrite($0, $0.replacing("t.requested", with: "t.rendered"))
        }, invariants: [.appointed, .noLostReload], script: slowProviders)

    /// `listed_at` is set without its list: one list in twenty is lost.
    private static let unlisted = Mutation(
        name: "unlisted",
        sql: """
            CREATE FUNCTION chaos_unlisted() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                RETURN CASE WHEN NEW.generation IS NULL AND random() < 0.05 THEN NULL ELSE NEW END;
            END $$;
            CREATE TRIGGER chaos_unlisted BEFORE INSERT ON work FOR EACH ROW EXECUTE FUNCTION chaos_unlisted();
            """, invariants: [.appointed, .noLostReload], script: slowProviders)

    /// Rows without work keep `listed_at`, and later marks mistake it for an appointment.
    private static let listedLeft = Mutation(
        name: "listedLeft",
        sql: """
            CREATE FUNCTION chaos_left() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF NEW.listed_at = 'infinity' THEN NEW.listed_at := OLD.listed_at; END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER chaos_left BEFORE UPDATE ON timeline FOR EACH ROW EXECUTE FUNCTION chaos_left();
            """, invariants: [.appointed, .noLostReload], script: slowProviders)

    /// A store does not check that the row is unchanged since the claim: the later one of two fetches is lost.
    private static let storeWithoutRevision = Mutation(
        name: "storeWithoutRevision",
        rewrites: StoreTexts.revisionChecks.map {
            TextRewrite("t.id = i.id AND \($0)", "t.id = i.id")
        },
        invariants: [.neverBack]
    ) { stage in
        stage.provider.set(latency: .milliseconds(100))
        for round in 0..<4 {
            let member = stage.fleet.workers[round % 2]
            try await happen(.databaseDelay(member.name, .milliseconds(300)), .seconds(9), stage)
        }
    }

    /// A transaction of ingest commits although another process has moved its positions.
    private static let positions = Mutation(
        name: "positions",
        sql: """
            CREATE OR REPLACE FUNCTION require_positions(moved bigint, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
            BEGIN
            END $$
            """, invariants: [.exactlyOnce]
    ) { stage in
        for round in 0..<4 {
            let member = stage.fleet.ingest[round % 2]
            if round < 2 {
                async let database: Void = happen(.databaseHeld(member.name), .seconds(28), stage)
                // The brokers are held a little later, so that the process has a batch that waits for the database. The
                // other process takes its partitions after some seconds and has to catch up.
                try await Task.sleep(for: .seconds(1))
                try await happen(.brokersHeld(member.name), .seconds(26), stage)
                try await database
            } else {
                try await happen(.freeze(member.name), .seconds(20), stage)
            }
            try await Task.sleep(for: .seconds(4))
        }
    }

    /// A device's appointment is set without its list: one list in twenty is lost.
    private static let deviceUnlisted = Mutation(
        name: "deviceUnlisted",
        sql: """
            CREATE FUNCTION chaos_device_unlisted() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                RETURN CASE WHEN random() < 0.05 THEN NULL ELSE NEW END;
            END $$;
            CREATE TRIGGER chaos_device_unlisted BEFORE INSERT ON delivery FOR EACH ROW
            EXECUTE FUNCTION chaos_device_unlisted();
            """, invariants: [.delivered, .liveness], script: slowSettlements)

    /// A change of a person does not make the plans of their stacks due.
    private static let planNotDue = Mutation(
        name: "planNotDue",
        rewrites: [
            TextRewrite("SET due_at = least(s.due_at, l.due_at) FROM locked l", "SET due_at = s.due_at FROM locked l")
        ],
        invariants: [.noLostReload], script: slowProviders)

    /// Much changes between the claim of a device and the settlement of its push, also the last changes of all.
    private static let slowSettlements: @Sendable (ChaosRun.Stage) async throws -> Void = { stage in
        stage.report.fault("database delayed", "database delayed of all deliveries by 400.0 ms until the end")
        for member in stage.fleet.delivery { member.postgres.set(delay: .milliseconds(400)) }
        try await Task.sleep(for: .seconds(12))
        stage.workload.stop()
        try await Task.sleep(for: .seconds(4))
    }

    /// Providers answer so slowly that many events arrive meanwhile.
    private static let slowProviders: @Sendable (ChaosRun.Stage) async throws -> Void = { stage in
        stage.provider.set(latency: .milliseconds(900))
        stage.report.fault("provider is slow", "every provider takes 0.9 s")
        try await Task.sleep(for: .seconds(15))
    }

    private static func happen(_ sort: Fault.Sort, _ length: Duration, _ stage: ChaosRun.Stage) async throws {
        try await stage.driver.happen(
            Fault(number: stage.report.faultCount + 1, start: stage.report.elapsed, length: length, sort: sort))
    }
}

/// Shows that the checker can fail: it must fail with each mutation, and must not with the same faults alone.
enum MutationRun {
    /// Number of attempts to notice a mutation, each with its own seed.
    private static let attempts = 3

    /// - Returns: Whether all mutations were noticed, and a table.
    static func run(_ options: ChaosOptions) async throws -> (isCaught: Bool, table: String) {
        var lines = [
            "", "  mutation                noticed as                    seed   after     without it",
        ]
        let known = Set(Mutation.all.map(\.name))
        var isCaught = options.mutations.allSatisfy(known.contains)
        for mutation in Mutation.all where options.mutations.isEmpty || options.mutations.contains(mutation.name) {
            var found: (invariant: Invariant, after: Duration)?
            var seed = options.seed
            for attempt in 0..<attempts where found == nil {
                seed = options.seed + UInt64(attempt)
                let report = try await run(mutation, seed: seed, isMutated: true, options)
                found = mutation.invariants.compactMap { invariant in
                    report.firstViolation(of: invariant).map { (invariant, $0) }
                }.min { $0.1 < $1.1 }
            }
            let control = try await run(mutation, seed: seed, isMutated: false, options)
            isCaught = isCaught && found != nil && control.violations == 0
            lines.append(
                "  " + padded(mutation.name, 24)
                    + padded(found?.invariant.title ?? "NOT NOTICED", 30) + padded("\(seed)", 7)
                    + padded(found.map { "\(ChaosReport.seconds($0.after)) s" } ?? "-", 10)
                    + (control.violations == 0 ? "nothing found" : "\(control.violations) VIOLATIONS"))
        }
        return (isCaught, lines.joined(separator: "\n"))
    }

    private static func run(
        _ mutation: Mutation, seed: UInt64, isMutated: Bool, _ options: ChaosOptions
    ) async throws -> ChaosReport {
        var options = options
        options.seed = seed
        options.mutation = isMutated ? mutation : nil
        options.patience = isMutated ? .seconds(30) : options.patience
        options.expected = isMutated ? mutation.invariants : []
        let label = isMutated ? mutation.name : "without \(mutation.name)"
        return try await ChaosRun(options: options, label: label, script: mutation.script).run()
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.count))
    }
}
