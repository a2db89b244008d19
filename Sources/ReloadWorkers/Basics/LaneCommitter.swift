/// A ``GroupCommitter`` for urgent lanes and one for patient lanes, so that urgent timelines do not wait for hundreds of a
/// patient lane.
struct LaneCommitter<Item: Sendable, Answer: Sendable>: Sendable {
    private static var limit: Int { 1_000 }

    private let urgent: GroupCommitter<Item, Answer>
    private let patient: GroupCommitter<Item, Answer>

    /// - Parameter body: runs the statement and returns one value for each item, in order.
    init(_ body: @escaping @Sendable ([Item]) async throws -> [Answer]) {
        urgent = GroupCommitter(concurrency: 1, limit: Self.limit, body)
        patient = GroupCommitter(concurrency: 1, limit: Self.limit, body)
    }

    var waiting: Int { urgent.waiting + patient.waiting }

    /// Returns one value for each item, in order.
    ///
    /// - Throws: as ``GroupCommitter/run(_:)``.
    func run(_ items: [Item], isUrgent: Bool) async throws -> [Answer] {
        try await (isUrgent ? urgent : patient).run(items)
    }
}
