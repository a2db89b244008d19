/// What was last decided for a timeline, as the hot row keeps it (design, section 6, rule 6).
package enum Decision: Int16, CaseIterable, Sendable {
    case none = 0
    /// Fetched, and what it shows changed: stored and published.
    case reloaded = 1
    /// Fetched, and nothing visible changed: the gate spared the write and the message.
    case unchanged = 2
    /// The provider failed for this timeline; the last good one stays.
    case failed = 3
    /// Budgeted work waits for the kind's spacing.
    case deferred = 4
    /// The worker stopped before the fetch was done and gave the timeline back.
    case released = 5
}
