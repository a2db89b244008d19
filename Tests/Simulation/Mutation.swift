/// A protection that is switched off, to show that the simulation would notice.
package enum Mutation: String, CaseIterable, Sendable {
    /// `AdvancePositions` compares nothing.
    case positionsUnchecked
    /// `AdvancePositions` compares the epoch only: a COMMIT of unknown outcome that is tried again.
    case positionsWithoutOffset
    /// An older lifecycle event overrides a newer one.
    case lifecycleIgnoresTime
    /// `SaveContent` does not look at the claim.
    case saveUnfenced
    /// `CompleteTimelines` does not look at the claim.
    case completionUnfenced
    /// The worker announces what it has not stored yet.
    case publishBeforeSave
    /// The generations that a completion renders are those of its end, not of its claim.
    case generationsAtCompletion
    /// Consumers take any message that comes.
    case consumersIgnoreRevision
    /// A mark moves `due_at` of a leased row.
    case markMovesLeased
    /// The chunk of a recorded sweep passes over leased rows, and its cursor moves on.
    case sweepSkipsLeased
    /// `SaveContent` leaves `published_hash` alone when the content comes back to it.
    case saveKeepsPublishedHash
    /// A worker whose claim was gone when it had published does nothing about it.
    case fencedPublisherIsSilent
    /// `CollectTimelines` does not look whether a widget shows the timeline again.
    case collectionUnchecked
    /// A failed fetch forgets what was asked for.
    case failureForgetsRequests
    /// A completion forgets what was asked for while it fetched.
    case completionForgetsLateRequests
    /// Cancelling bulk work takes timelines along that were asked for by themselves.
    case cancelTakesRequests
    /// A timeline goes to sleep with something stored that was not published.
    case sleepUnpublished
    /// The same when bulk work is cancelled.
    case cancelUnpublished
    /// A completion takes the generations of its claim's snapshot, even if an earlier claim has rendered later ones.
    case renderedGoesBack
}
