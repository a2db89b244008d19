/// A protection that is switched off, to show that the simulation would notice.
package enum Mutation: String, CaseIterable, Sendable {
    // Ingest.

    /// A transaction compares no positions.
    case positionsUnchecked
    /// It compares the epoch only: a COMMIT of unknown outcome that is tried again.
    case positionsWithoutOffset
    /// An older lifecycle event overrides a newer one.
    case lifecycleIgnoresTime
    /// A mark sets `listed_at` and appends no list.
    case listedWithoutList
    /// The check whether a widget shows a timeline has the mark's snapshot.
    case orphanCheckInMark
    /// An orphaned timeline that is shown again keeps its hash: nothing is published after its tombstone.
    case revivalKeepsHash
    /// A raise of a walk's generation leaves the walk where it is.
    case raiseDoesNotGoRound
    /// The revision of what is handed over is the token that the mark has taken.
    case tokenBeforeCommit

    // Sweepers and operators.

    /// A walk goes on with the snapshot of before a raise.
    case walkIgnoresRaise
    /// Cancelling deletes lists that somebody has leased.
    case cancelDeletesLeased

    // Workers.

    /// The next appointment is not computed from the locked row.
    case nextFromSnapshot
    /// A store does not look at the row's revision.
    case storeUnchecked
    /// `rendered` becomes the requests at the store, not those at the claim.
    case requestsOfStore
    /// The same of the kind's generation.
    case generationOfStore
    /// Content is published before it is stored.
    case publishBeforeStore
    /// Nothing to do, and `listed_at` left as it was.
    case nothingKeepsAppointment
    /// Budgeted work waits, and the policy's time stays as it was.
    case waitLeavesPolicy
    /// A timeline goes to sleep whatever came in between.
    case sleepUnchecked
    /// A timeline that waited for another claim of its process is stored with the older token.
    case rereadKeepsToken
    /// A collection looks for widgets in the statement that locks the rows.
    case collectInOneStatement
    /// A timeline is deleted that was stored since its tombstone.
    case collectsRevived
    /// A list is ended without comparing what was published with what is stored.
    case endBeforeComparison
    /// The comparison looks for the row, not for the identity, which may have a new row.
    case comparedByRow
    /// The comparison takes an orphaned timeline's content for what must have been published last: a tombstone may stand
    /// before it, and the row be deleted next.
    case orphanComparesAsShown
    /// A list is ended by whoever worked on it.
    case endWithoutToken
    /// A store whose acknowledgement was lost is taken for another worker's when it is tried again.
    case ownStoreIsForeign
    /// A tombstone has the revision of the stored content: a late message with that content follows it.
    case tombstoneOfContent
    /// A tombstone has a token, and the row does not: content with a lower one is stored after it.
    case tombstoneUnstored
    /// A store that is discarded does not look at the appointment.
    case discardKeepsAppointment
}
