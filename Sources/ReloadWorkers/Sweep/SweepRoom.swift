import WidgetModel

/// How many timelines of each kind may still be made due in the bulk lane.
struct SweepRoom: Sendable {
    private let highWater: Int
    private let chunk: Int
    private var backlogs: [Int32: Int]

    /// - Parameter backlogs: due timelines in the bulk lane, by kind; none for those that are absent.
    init(_ configuration: WorkerConfiguration, backlogs: [Int32: Int]) {
        highWater = max(1, configuration.bulkHighWater)
        chunk = max(1, min(configuration.sweepChunk, highWater))
        self.backlogs = backlogs
    }

    /// How many timelines of the kind to make due next; nil while it has no room for at least half a chunk, so that it
    /// is refilled by chunks and not by the row.
    func chunk(of kindID: Int32) -> Int? {
        let room = highWater - backlogs[kindID, default: 0]
        return room >= (chunk + 1) / 2 ? min(chunk, room) : nil
    }

    /// The smallest chunk that all the kinds have room for.
    func chunk(of kindIDs: [Int32]) -> Int? {
        var smallest = chunk
        for kindID in kindIDs {
            guard let chunk = chunk(of: kindID) else { return nil }
            smallest = min(smallest, chunk)
        }
        return smallest
    }

    mutating func marked(_ count: Int, of kindIDs: [Int32]) {
        for kindID in kindIDs { backlogs[kindID, default: 0] += count }
    }
}
