import Synchronization

/// How many events wait in Kafka, so that no more come than the embedded broker keeps.
final class SoakLag: Sendable {
    private static let interval = Duration.milliseconds(200)

    /// Most that may wait.
    private let limit: Int
    private let unapplied = Atomic(0)

    /// - Parameter partitions: of the topic of the events. The broker keeps the last 5 MiB of each: some 15,000 events, of which
    ///   half may wait.
    init(partitions: Int) {
        limit = partitions * 7_500
    }

    var isTooLong: Bool { unapplied.load(ordering: .relaxed) > limit }

    /// Looks again and again until it is cancelled.
    ///
    /// - Throws: ``CommandFailure`` when the service has ended, or stands still while events wait; `CancellationError`.
    func watch(_ stage: LoadStage) async throws {
        var (last, since) = (-1, ContinuousClock.now)
        while true {
            try stage.requireServices()
            if let positions = try? await stage.positions() {
                unapplied.store(stage.latency.unapplied(at: positions), ordering: .relaxed)
                let applied = positions.values.reduce(0) { $0 + Int($1) }
                if applied != last || !isTooLong { (last, since) = (applied, .now) }
            }
            guard since.duration(to: .now) < LoadStage.patience else {
                throw CommandFailure(.failure, "events wait in Kafka, and none of them is applied any more")
            }
            try await Task.sleep(for: Self.interval)
        }
    }
}
