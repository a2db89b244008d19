import Synchronization

/// A dependency of the process.
package struct ReadinessCheck: Sendable {
    /// `postgres`, `migrations`, `kafka`, `ingest`
    package let name: String
    /// Returns the reason why the dependency is not ready; nil if it is ready.
    package let missing: @Sendable () async -> String?

    package init(name: String, missing: @escaping @Sendable () async -> String?) {
        self.name = name
        self.missing = missing
    }
}

/// Results of the readiness checks.
struct ReadinessReport: Sendable {
    /// Dependencies, each with the reason why it is not ready; nil if it is ready.
    var items: [(name: String, missing: String?)]

    var isReady: Bool { items.allSatisfy { $0.missing == nil } }
}

/// Runs the readiness checks concurrently, each with a time limit, and at most once a second, so that probes cause no
/// load.
package final class Readiness: Sendable {
    private struct State {
        var report: Task<ReadinessReport, Never>?
        /// Nil while the checks run.
        var endedAt: ContinuousClock.Instant?
    }

    private let checks: [ReadinessCheck]
    private let timeLimit: Duration
    private let freshness: Duration
    private let state = Mutex(State())

    package init(checks: [ReadinessCheck], timeLimit: Duration = .seconds(3), freshness: Duration = .seconds(1)) {
        self.checks = checks
        self.timeLimit = timeLimit
        self.freshness = freshness
    }

    func report() async -> ReadinessReport {
        let report = state.withLock { state in
            if let report = state.report, state.endedAt.map({ $0.duration(to: .now) < freshness }) ?? true {
                return report
            }
            // Unstructured, since several probes wait for it and none may cancel it. Each check has a time limit.
            let report = Task { [self] in
                let report = await run()
                self.state.withLock { $0.endedAt = .now }
                return report
            }
            state = State(report: report)
            return report
        }
        return await report.value
    }

    private func run() async -> ReadinessReport {
        await withTaskGroup(of: (Int, String?).self) { group in
            for (index, check) in checks.enumerated() {
                group.addTask { (index, await self.missing(check)) }
            }
            var report = ReadinessReport(items: checks.map { ($0.name, nil) })
            for await (index, missing) in group { report.items[index].missing = missing }
            return report
        }
    }

    private func missing(_ check: ReadinessCheck) async -> String? {
        do {
            let missing = try await withTimeLimit(timeLimit) { await check.missing() }
            return missing ?? "no answer within \(timeLimit)"
        } catch {
            return "not checked"
        }
    }
}

/// A loop of the process that must make progress.
package struct LivenessProbe: Sendable {
    /// `ingest`, `consumer`, `workers`
    package let name: String
    /// Longest time without progress; generous, since the orchestrator restarts the process after it.
    package let limit: Duration
    /// Time since the last progress of the loop; nil while it is idle or does not run.
    package let silence: @Sendable () -> Duration?

    package init(name: String, limit: Duration, silence: @escaping @Sendable () -> Duration?) {
        self.name = name
        self.limit = limit
        self.silence = silence
    }
}

/// Whether the process itself works. Kafka and PostgreSQL do not matter, since a restart would not bring them back.
package struct Liveness: Sendable {
    /// A loop without progress.
    package struct Wedged: Hashable, Sendable {
        package let name: String
        package let silence: Duration
    }

    private let probes: [LivenessProbe]

    package init(probes: [LivenessProbe] = []) {
        self.probes = probes
    }

    /// Loops without progress; empty if the process is live.
    package func wedged() -> [Wedged] {
        probes.compactMap { probe in
            guard let silence = probe.silence(), silence > probe.limit else { return nil }
            return Wedged(name: probe.name, silence: silence)
        }
    }
}
