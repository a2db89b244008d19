package import WidgetModel

/// A work list that this process has leased, with the timelines for which it is not superseded.
package struct LeasedList: Sendable {
    package let id: Int64
    package let kindID: Int32
    package let lane: ReloadLane
    package let dueAt: Timestamp
    /// Generation of the sweep that appended the list; nil: it is the appointment of its timelines.
    package var generation: Int64?
    /// Token of the lease: only its holder ends the list.
    package let lease: Int64
    /// All its row ids if it was leased before: some of them may be stored and not published. Else empty.
    package var suspects: [Int64] = []
    /// Rows for which the list is not superseded.
    package var timelines: [ClaimedTimeline]

    package var wasLeasedBefore: Bool { !suspects.isEmpty }

    package var via: LookVia { generation.map { .sweep(generation: $0) } ?? .appointment }

    /// The list and its lease, as the statements of the holder name it.
    package var hold: ListHold { ListHold(id: id, lease: lease) }
}

/// A list by id and lease token.
package struct ListHold: Hashable, Sendable {
    package let id: Int64
    package let lease: Int64
}
