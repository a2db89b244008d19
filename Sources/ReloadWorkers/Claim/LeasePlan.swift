package import WidgetModel
import WidgetStore

/// Lengths of leases.
struct LeasePlan {
    /// Part of a lease reserved for the database, besides the request and the publishing.
    private static let databaseTime = Duration.seconds(5)

    let configuration: WorkerConfiguration
    let longestPublish: Duration

    /// The lease for a kind: covers a request up to the kind's timeout, the snapshot before it in the interactive lane,
    /// and the publishing after it.
    func lease(for kind: RegisteredKind, lane: ReloadLane) -> Duration {
        let snapshot = lane == .interactive ? kind.definition.snapshotLimit(configuration.snapshotLimit) : .zero
        return max(configuration.lease, snapshot + kind.definition.timeout + longestPublish + Self.databaseTime)
    }

    /// The lease for a kind, rounded up to a multiple of the configured one, so that there are few different ones.
    func rounded(for kind: RegisteredKind, lane: ReloadLane) -> Duration {
        let base = max(1, configuration.lease.wholeMicroseconds)
        return .microseconds((lease(for: kind, lane: lane).wholeMicroseconds + base - 1) / base * base)
    }

    /// The wishes by lease, so that a kind with a long timeout does not prolong the leases of others after a crash.
    func grouped(_ wishes: [ClaimWish], kinds: [Int32: RegisteredKind]) -> [(lease: Duration, wishes: [ClaimWish])] {
        let groups = Dictionary(grouping: wishes) { wish in
            kinds[wish.kindID].map { rounded(for: $0, lane: wish.lane) } ?? configuration.lease
        }
        return groups.sorted { $0.key < $1.key }.map { (lease: $0.key, wishes: $0.value) }
    }
}

extension KindDefinition {
    /// Longest wait of a timeline for its snapshot; zero for kinds without snapshots.
    ///
    /// - Parameter limit: ``WorkerConfiguration/snapshotLimit``.
    package func snapshotLimit(_ limit: Duration) -> Duration { hasSnapshots ? min(timeout, limit) : .zero }
}
