import WidgetModel
import WidgetStore

/// How long to lease what is to be claimed.
struct LeasePlan {
    /// What the database may take of a lease, besides the request and the publishing.
    private static let databaseTime = Duration.seconds(5)

    let configuration: WorkerConfiguration
    let longestPublish: Duration

    /// A lease must hold a request up to the kind's timeout, with what goes before it in the interactive lane, and what
    /// follows it.
    func lease(for kind: RegisteredKind, lane: ReloadLane) -> Duration {
        let snapshot = lane == .interactive ? SnapshotStep.limit(for: kind) : .zero
        return max(configuration.lease, snapshot + kind.definition.timeout + longestPublish + Self.databaseTime)
    }

    /// The wishes by lease, so that a kind with a long timeout does not leave the others' timelines leased for as long
    /// when a worker is killed. Leases are rounded up to a multiple of the configured one, so that there are few.
    func grouped(_ wishes: [ClaimWish], kinds: [Int32: RegisteredKind]) -> [(lease: Duration, wishes: [ClaimWish])] {
        let base = max(1, configuration.lease.wholeMicroseconds)
        let groups = Dictionary(grouping: wishes) { wish -> Int64 in
            guard let kind = kinds[wish.kindID] else { return 1 }
            return (lease(for: kind, lane: wish.lane).wholeMicroseconds + base - 1) / base
        }
        return groups.sorted { $0.key < $1.key }.map { (lease: .microseconds($0.key * base), wishes: $0.value) }
    }
}
