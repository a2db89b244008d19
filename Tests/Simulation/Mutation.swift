// SPDX-License-Identifier: Apache-2.0

/// A protection that is disabled, to show that the simulation notices.
package enum Mutation: String, CaseIterable, Sendable {
    // Ingest.

    /// A transaction does not compare positions.
    case positionsUnchecked
    /// A transaction compares only the epoch, so that a COMMIT of unknown outcome is repeated.
    case positionsWithoutOffset
    /// An older lifecycle event overrides a newer one.
    case lifecycleIgnoresTime
    /// A mark sets `listed_at` but appends no list.
    case listedWithoutList
    /// The check for widgets that show a timeline uses the mark's snapshot.
    case orphanCheckInMark
    /// An orphaned timeline that is shown again keeps its hash: no content follows its tombstone.
    case revivalKeepsHash
    /// A new generation does not move the cursor of a walk.
    case raiseDoesNotGoRound
    /// A mark takes the token of its hand-over before it has locked its rows.
    case tokenBeforeLocks

    // Sweepers and operators.

    /// A walk continues with a snapshot from before a new generation.
    case walkIgnoresRaise
    /// Cancelling deletes leased lists.
    case cancelDeletesLeased

    // Workers.

    /// The next appointment is not computed from the locked row.
    case nextFromSnapshot
    /// A store does not check the row's revision.
    case storeUnchecked
    /// `rendered` is set to the requests at the store instead of those at the claim.
    case requestsOfStore
    /// The same for the kind's generation.
    case generationOfStore
    /// Content is published before it is stored.
    case publishBeforeStore
    /// A look without work leaves `listed_at` unchanged.
    case nothingKeepsAppointment
    /// Deferred work leaves the policy's time unchanged.
    case waitLeavesPolicy
    /// A timeline goes to sleep despite changes since the decision.
    case sleepUnchecked
    /// A timeline that waited for another claim of its process is stored with the older token.
    case rereadKeepsToken
    /// A collection looks for widgets in the statement that locks the rows.
    case collectInOneStatement
    /// A timeline is deleted although it was stored after its tombstone.
    case collectsRevived
    /// A list is ended without comparing published and stored content.
    case endBeforeComparison
    /// The comparison looks for the row instead of the identity, which may have a new row.
    case comparedByRow
    /// The comparison assumes an orphaned timeline's content to be its last message, although a tombstone may precede
    /// it and the row may be deleted next.
    case orphanComparesAsShown
    /// A list is ended without checking its lease.
    case endWithoutToken
    /// A store whose acknowledgement was lost is mistaken for another worker's when it is repeated.
    case ownStoreIsForeign
    /// A tombstone has the revision of the stored content, so that a late message with that content follows it.
    case tombstoneOfContent
    /// A tombstone's token is not written to the row, so that content with a lower one is stored after it.
    case tombstoneUnstored
    /// A discarded store does not check the appointment.
    case discardKeepsAppointment
    /// A failure of a row that has changed does not check the appointment.
    case failureKeepsAppointment
    /// A look through a reload of everyone does not note the generation that it knew, so that a statement which began
    /// before the reload appoints by an earlier one.
    case lookForgetsGeneration
}
