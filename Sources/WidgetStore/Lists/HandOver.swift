/// Workers of the same process that take timelines from ingest: the mark appends their lists leased to it, and the rows
/// enter the pipeline at *decide*. No claim, no wake-up.
package protocol HandOverReceiving: Sendable {
    /// Reserves room for timelines of these kinds; nil: there is none, and the lists are appended for anyone to claim.
    ///
    /// Each grant ends with ``accept(_:_:)``, with nil if the transaction failed or handed nothing over.
    func reserve(_ timelines: Int, of kindIDs: Set<Int32>) -> HandOverGrant?

    /// Takes what was handed over, after the COMMIT. The claim's token was taken after it too.
    func accept(_ grant: HandOverGrant, _ claim: Claim?)

    /// Notes before a transaction whether Kafka has a backlog, whose later events may concern the same timelines.
    func ingestIsBehind(_ isBehind: Bool)
}

/// Room that workers keep free until it is accepted.
package struct HandOverGrant: Sendable {
    /// Number of timelines that the room is for.
    package let timelines: Int
    package let statement: HandOver
    /// Clock reading of the workers before the lease began.
    package let grantedAt: Duration

    package init(timelines: Int, statement: HandOver, grantedAt: Duration) {
        self.timelines = timelines
        self.statement = statement
        self.grantedAt = grantedAt
    }
}
