/// A loop of the process that must make progress.
package struct LivenessProbe: Sendable {
    /// `ingest`, `consumer`, `workers`
    package let name: String
    /// Longest silence; generous, since the orchestrator restarts the process after it.
    package let limit: Duration
    /// Time since the loop last made progress; nil while it is idle or does not run.
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
