/// How long work may gather before it is claimed, so that it is fetched in batches.
///
/// Work of an app that has had none for a while is claimed almost at once: a busy app's work would gather for the next
/// batch, but there is nothing for that one to be gathered with, and its latency must not depend on others' load.
///
/// Pure: no I/O, no clock.
struct ClaimPace: Sendable {
    /// Least time between two claims.
    let spacing: Duration
    /// When urgent work of each app was last claimed; only of those for which that is less than the spacing ago.
    private var claimed: [Int32: Duration] = [:]
    /// Work of such an app has come in since the loop looked last.
    private var isAwaited = false

    init(spacing: Duration) {
        self.spacing = spacing
    }

    /// However many apps have work now and then, this part of the spacing is kept, so that they share claims.
    private static let floor = 5

    /// When to look for due work next.
    ///
    /// - Parameters:
    ///   - began: when the loop looked last.
    ///   - apps: those whose work has come in since this was asked last.
    mutating func next(after began: Duration, apps: Set<Int32>, now: Duration) -> Duration {
        if !isAwaited {
            claimed = claimed.filter { now - $0.value < spacing }
            isAwaited = apps.contains { claimed[$0] == nil }
        }
        return began + (isAwaited ? spacing / Self.floor : spacing)
    }

    /// The loop looks for due work: what has come in by now is awaited no longer.
    mutating func turnBegins() {
        isAwaited = false
    }

    /// Urgent work of an app was claimed by a claim that began then.
    mutating func claimed(_ app: Int32, at time: Duration) {
        claimed[app] = time
    }
}
