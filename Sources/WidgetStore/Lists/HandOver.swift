/// Workers that take timelines from ingest in the same process, without a claim: the mark appends the lists with
/// leases, and the rows enter the pipeline at *decide*.
package protocol HandOverReceiving: Sendable {
    /// Whether the workers hold at least a quarter of their maximum number of timelines.
    var areBusy: Bool { get }

    /// Reserves room for timelines of these kinds: as many as their providers have free slots for. An event may reach
    /// one widget or thousands, so the room says nothing about the number of events. Nil without room.
    ///
    /// Each grant ends with ``accept(_:_:)``, with a nil claim if the transaction failed or handed nothing over.
    func reserve(_ kindIDs: Set<Int32>) -> HandOverGrant?

    /// Takes the handed-over timelines, after the COMMIT. The claim's token is taken after it too.
    func accept(_ grant: HandOverGrant, _ claim: Claim?)

    /// Notes, before a transaction, whether it is a large one within a backlog, whose later requests may concern the
    /// same timelines.
    func ingestIsBehind(_ isBehind: Bool)
}

/// Room that workers keep free until the grant is accepted.
package struct HandOverGrant: Sendable {
    package let statement: HandOver
    /// Clock reading of the workers before the lease began.
    package let grantedAt: Duration

    package init(statement: HandOver, grantedAt: Duration) {
        self.statement = statement
        self.grantedAt = grantedAt
    }
}
