import Logging
import PostgresClient
import WidgetModel
import WidgetStore

extension Sweeper {
    /// A chunk of each kind that is being retired, and of each whose widgets are moved to timelines of another identity:
    /// paced like a sweep, since what it leaves behind, or places, is work in the bulk lane.
    func changeKinds() async throws -> Pass {
        var pass = Pass()
        let kinds = try await context.pool.query(KindsToChange(highWater: context.configuration.bulkHighWater))
        guard !kinds.isEmpty else { return pass }
        let room = SweepRoom(
            context.sweepConfiguration, backlogs: Dictionary(kinds.map { ($0.kindID, $0.backlog) }) { $1 })
        for kind in kinds {
            try Task.checkCancellation()
            guard let limit = room.chunk(of: kind.kindID) else {
                pass.isHeldBack = true
                continue
            }
            guard let chunk = try await change(kind, limit: limit) else {
                // Another process has it, or will look again when it is time.
                pass.isHeldBack = true
                continue
            }
            if chunk.isProgress { pass.changed += 1 }
            if chunk.orphans + chunk.placed > 0 { context.signal.signal(.timelines) }
            if chunk.isEnd {
                context.logger.info(
                    "the widgets of a kind have moved to its new timelines", metadata: ["kind": "\(kind.kindID)"])
            }
        }
        return pass
    }

    private func change(_ kind: KindsToChange.Row, limit: Int) async throws -> KindChunk? {
        let store = WidgetStore(pool: context.pool)
        switch kind.change {
        case .retire:
            return try await store.retireChunk(
                kindID: kind.kindID, timelines: limit, widgets: context.sweepConfiguration.sweepChunk)
        case .move:
            // Each widget that moves may leave one timeline to be collected and place another.
            return try await store.moveChunk(
                kindID: kind.kindID, limit: max(1, limit / 2), settling: context.configuration.definitionSettling)
        }
    }
}
