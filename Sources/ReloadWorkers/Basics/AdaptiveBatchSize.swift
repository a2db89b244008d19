import Synchronization

/// How much to take on at once: less as soon as something was more than could be done in time, and little by little as
/// much as is configured again.
///
/// A slow database so has no more work begun than it ends within the leases, and a statement that would take longer than
/// it may is tried with fewer rows.
final class AdaptiveBatchSize: Sendable {
    private let state = Mutex(State())

    /// The part of what is configured; at least one.
    func share(of configured: Int) -> Int {
        state.withLock { max(1, Int(Double(configured) * $0.share)) }
    }

    /// Something has ended.
    ///
    /// - Parameters:
    ///   - begun: when it was taken on; what is older than the latest halving says nothing about the new size.
    ///   - isInTime: it took no longer than it may.
    func ended(begun: Duration, isInTime: Bool, at now: Duration) {
        state.withLock { $0.ended(begun: begun, isInTime: isInTime, at: now) }
    }

    /// Pure: no clock.
    struct State: Sendable, Equatable {
        private static let least = 1.0 / 4096
        private static let growth = 1.0 / 16

        private(set) var share = 1.0
        private var halvedAt: Duration?

        mutating func ended(begun: Duration, isInTime: Bool, at now: Duration) {
            if let halvedAt, begun < halvedAt { return }
            if isInTime {
                // Doubles while it is small, so that one bad moment is not felt for long.
                share = min(1, share + min(share, Self.growth))
            } else {
                share = max(Self.least, share / 2)
                halvedAt = now
            }
        }
    }
}
