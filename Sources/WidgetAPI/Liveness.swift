/// A loop of the process that has to come round.
package struct LivenessProbe: Sendable {
    /// `ingest`, `consumer`, `workers`
    package let name: String
    /// How long it may be silent: generous, since whoever asks restarts the process.
    package let limit: Duration
    /// How long it has been at work without coming round; nil while it waits for something to do, or does not run.
    package let silence: @Sendable () -> Duration?

    package init(name: String, limit: Duration, silence: @escaping @Sendable () -> Duration?) {
        self.name = name
        self.limit = limit
        self.silence = silence
    }
}

/// Whether the process itself works. It never asks Kafka or PostgreSQL: that they are away is no reason to restart it.
package struct Liveness: Sendable {
    /// A loop that hangs.
    package struct Wedged: Hashable, Sendable {
        package let name: String
        package let silence: Duration
    }

    private let probes: [LivenessProbe]

    package init(probes: [LivenessProbe] = []) {
        self.probes = probes
    }

    /// The loops that hang; none when the process is live.
    package func wedged() -> [Wedged] {
        probes.compactMap { probe in
            guard let silence = probe.silence(), silence > probe.limit else { return nil }
            return Wedged(name: probe.name, silence: silence)
        }
    }
}
