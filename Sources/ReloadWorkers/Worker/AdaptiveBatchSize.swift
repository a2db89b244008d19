import Synchronization

/// Share of a configured batch size: halves when a batch took too long, and grows again in small steps.
///
/// It keeps the work of a slow database within the leases, and statements within their time limits.
final class AdaptiveBatchSize: Sendable {
    private let state = Mutex(State())

    /// The share of a configured number, at least one.
    func share(of configured: Int) -> Int {
        state.withLock { max(1, Int(Double(configured) * $0.share)) }
    }

    /// Notes the end of a batch.
    ///
    /// - Parameters:
    ///   - begun: begin of the batch; batches from before the latest halving are ignored.
    ///   - isInTime: whether the batch kept its time limit.
    func ended(begun: Duration, isInTime: Bool, at now: Duration) {
        state.withLock { $0.ended(begun: begun, isInTime: isInTime, at: now) }
    }

    /// Pure state: times are parameters.
    struct State: Sendable, Equatable {
        private static let least = 1.0 / 4096
        private static let growth = 1.0 / 16

        private(set) var share = 1.0
        private var halvedAt: Duration?

        mutating func ended(begun: Duration, isInTime: Bool, at now: Duration) {
            if let halvedAt, begun < halvedAt { return }
            if isInTime {
                // Doubles while it is small, so that one slow batch has no lasting effect.
                share = min(1, share + min(share, Self.growth))
            } else {
                share = max(Self.least, share / 2)
                halvedAt = now
            }
        }
    }
}
