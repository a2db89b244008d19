/// Workers that take timelines from ingest in the same process, in the transaction that marks them: while they have room for
/// it, no due work has to be looked for, and none waits.
package protocol DirectClaiming: Sendable {
    /// Asks what of these kinds there is room for; nil: for nothing. Each grant is to be settled.
    func grant(_ kindIDs: Set<Int32>, of directory: KindDirectory) -> DirectGrant?

    /// Hands over what was claimed, after the COMMIT; nothing when there was none.
    func settle(_ grant: DirectGrant, _ claimed: [ClaimedTimeline])
}

/// Room that workers keep free until it is settled.
package struct DirectGrant: Sendable {
    /// How they know it again.
    package let number: UInt64
    package let marks: MarkGrant

    package init(number: UInt64, marks: MarkGrant) {
        self.number = number
        self.marks = marks
    }
}
