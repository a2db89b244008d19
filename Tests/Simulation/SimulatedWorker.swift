import WidgetModel

/// A process in the workers role: what it holds is gone when it crashes. It may stop at any point for any time, and then
/// goes on as if nothing had been.
struct SimulatedWorker {
    /// A claimed timeline on its way through `BatchRunner`, `CollectionRunner` or `DeferralRunner`.
    struct Job {
        enum Stage: Hashable {
            /// Nothing was done yet.
            case claimed
            /// The provider has the request.
            case fetching
            case fetched
            case saved
            /// Its message, or tombstone, is on the way.
            case sent(Int)
            /// What there is to publish was acknowledged.
            case published
            /// Its claim was gone when it had published.
            case fenced
            /// The timeline was gone too: another tombstone is on the way.
            case burying(Int)
        }

        let timeline: Int
        let claim: TimelineClaim
        let plan: ReloadPlan
        /// On the worker's clock.
        let leaseEnds: Timestamp
        var stage = Stage.claimed
        var fetchedAt = 0
        var value: UInt8 = 0
        var policy = ReloadPolicy.never
        var isChanged = false
        /// As the save found it.
        var publishedHash: ContentHash?
        var isPublished = false

        var hash: ContentHash { SimulatedWorld.hash(of: value) }
        /// `SavedTimeline.needsPublishing`.
        var needsPublishing: Bool { isChanged || publishedHash != hash }
    }

    /// The snapshot of a claim that is under way: the time, and the scope of each kind.
    struct Snapshot {
        let now: Timestamp
        let scopes: [ScopeGenerations]
    }

    var jobs: [Job] = []
    var claiming: Snapshot?
    /// A chunk of a sweep that is under way.
    var sweeping: (kind: Int, snapshot: Snapshot)?
}
