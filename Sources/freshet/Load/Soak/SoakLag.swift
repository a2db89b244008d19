import Synchronization

/// How many events wait in Kafka, so that no more come than the embedded broker keeps.
final class SoakLag: Sendable {
    /// Most that may wait: the broker keeps the last 5 MiB of a partition, and this is about half of that.
    static let limit = 120_000
    private static let interval = Duration.milliseconds(200)

    private let unapplied = Atomic(0)

    var isTooLong: Bool { unapplied.load(ordering: .relaxed) > Self.limit }

    /// Looks again and again until it is cancelled; while the database does not answer, what was last seen stands.
    func watch(_ stage: LoadStage) async {
        while !Task.isCancelled {
            if let positions = try? await stage.positions() {
                unapplied.store(stage.latency.unapplied(at: positions), ordering: .relaxed)
            }
            try? await Task.sleep(for: Self.interval)
        }
    }
}
