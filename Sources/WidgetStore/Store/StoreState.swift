/// SQLSTATEs by which statements fail a transaction of ingest.
package enum StoreState {
    /// A position is no longer this process's.
    package static let fenced = "FR001"
    /// Other apps are diverted than the process believes.
    package static let otherDiversions = "FR002"
    /// A topic of the batch is halted.
    package static let halted = "FR003"
}
