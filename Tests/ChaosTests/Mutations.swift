import Foundation

/// A protection that is taken away, what happens then so that it would have been needed, and the invariant that breaks.
struct Mutation: Sendable {
    /// As `FRESHET_DISABLE_PROTECTION` names it.
    let protection: String
    let invariant: Invariant
    let script: @Sendable (ChaosRun.Stage) async throws -> Void

    static let all = [fencing, positions, saveBeforePublish, generationCapture]

    /// What a worker has said to the database is held back until its lease is over and another worker has taken the
    /// timelines, and is let through then; or the worker itself stands still so long.
    private static let fencing = Mutation(protection: "fencing", invariant: .neverBack) { stage in
        stage.provider.set(latency: .milliseconds(200))
        for round in 0..<4 {
            let member = stage.fleet.workers[round % 2]
            if round < 2 {
                try await happen(.databaseHeld(member.name), .seconds(14), stage)
            } else {
                try await happen(.freeze(member.name), .seconds(14), stage)
            }
            try await Task.sleep(for: .seconds(2))
        }
    }

    /// An ingest process is cut off in the middle of its batches until its partitions belong to another, and goes on then.
    private static let positions = Mutation(protection: "positions", invariant: .exactlyOnce) { stage in
        for round in 0..<4 {
            let member = stage.fleet.ingest[round % 2]
            if round < 2 {
                async let database: Void = happen(.databaseHeld(member.name), .seconds(28), stage)
                // The brokers a little later, so that it has a batch at hand, which waits for the database. The group needs
                // some 15 s to notice and to rebalance; then the other one has to catch up.
                try await Task.sleep(for: .seconds(1))
                try await happen(.brokersHeld(member.name), .seconds(26), stage)
                try await database
            } else {
                try await happen(.freeze(member.name), .seconds(20), stage)
            }
            try await Task.sleep(for: .seconds(4))
        }
    }

    /// The way to the database takes long, and workers are killed.
    private static let saveBeforePublish = Mutation(
        protection: "saveBeforePublish", invariant: .publishedIsStored
    ) { stage in
        for round in 0..<4 {
            let member = stage.fleet.workers[round % 2]
            try await happen(.databaseDelay(member.name, .milliseconds(100)), .seconds(4), stage)
            try await happen(.kill(member.name), .seconds(1), stage)
        }
    }

    /// Providers take so long that many events come while they answer.
    private static let generationCapture = Mutation(
        protection: "generationCapture", invariant: .noLostReload
    ) { stage in
        stage.provider.set(latency: .milliseconds(900))
        stage.report.fault("provider is slow", "every provider takes 0.9 s")
        try await Task.sleep(for: .seconds(15))
    }

    private static func happen(_ sort: Fault.Sort, _ length: Duration, _ stage: ChaosRun.Stage) async throws {
        try await stage.driver.happen(
            Fault(number: stage.report.faultCount + 1, start: stage.report.elapsed, length: length, sort: sort))
    }
}

/// Shows that the checker can fail: without each protection it must, and with all of them it must not.
enum MutationRun {
    /// Attempts, with a seed each, to expose what is missing.
    private static let attempts = 3

    /// - Returns: whether all were noticed, and the table.
    static func run(_ options: ChaosOptions) async throws -> (isCaught: Bool, table: String) {
        var lines = [
            "", "  protection taken away   noticed as                    seed   after     with all in place",
        ]
        let known = Set(Mutation.all.map(\.protection))
        var isCaught = options.protections.allSatisfy(known.contains)
        for mutation in Mutation.all
        where options.protections.isEmpty || options.protections.contains(mutation.protection) {
            var found: Duration?
            var seed = options.seed
            for attempt in 0..<attempts where found == nil {
                seed = options.seed + UInt64(attempt)
                let report = try await run(mutation, seed: seed, isMutated: true, options)
                found = report.firstViolation(of: mutation.invariant)
            }
            let control = try await run(mutation, seed: seed, isMutated: false, options)
            isCaught = isCaught && found != nil && control.violations == 0
            lines.append(
                "  " + padded(mutation.protection, 24)
                    + padded(found == nil ? "NOT NOTICED" : mutation.invariant.title, 30) + padded("\(seed)", 7)
                    + padded(found.map { "\(ChaosReport.seconds($0)) s" } ?? "-", 10)
                    + (control.violations == 0 ? "nothing found" : "\(control.violations) VIOLATIONS"))
        }
        return (isCaught, lines.joined(separator: "\n"))
    }

    private static func run(
        _ mutation: Mutation, seed: UInt64, isMutated: Bool, _ options: ChaosOptions
    ) async throws -> ChaosReport {
        var options = options
        options.seed = seed
        options.disabledProtection = isMutated ? mutation.protection : nil
        options.patience = isMutated ? .seconds(30) : options.patience
        options.expected = isMutated ? mutation.invariant : nil
        let label = isMutated ? "without \(mutation.protection)" : "with \(mutation.protection)"
        return try await ChaosRun(options: options, label: label, script: mutation.script).run()
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.count))
    }
}
