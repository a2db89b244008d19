import Logging
import PostgresClient
import WidgetModel
import WidgetStore

extension Sweeper {
    /// A chunk of each kind that is being retired, and of each whose widgets are moved to timelines of another identity;
    /// answers whether any made progress.
    func changeKinds() async throws -> Bool {
        var isProgress = false
        let store = WidgetStore(pool: context.pool)
        // Each widget that moves may leave one timeline to be collected and place another.
        let limit = max(1, context.sweepSize.share(of: context.configuration.sweepChunk) / 2)
        let lists = max(1, context.configuration.bulkHighWater / Appending.limit)
        for kind in try await context.pool.query(KindsToChange(maximumLists: lists)) {
            try Task.checkCancellation()
            // No chunk: another process has it, or will look again when it is time.
            let chunk = try await store.changeChunk(
                kindID: kind, limit: limit, settling: context.configuration.definitionSettling)
            guard let chunk else { continue }
            isProgress = true
            if chunk.orphans + chunk.placed > 0 { context.signal.signal(.timelines) }
            if chunk.isEnd {
                context.logger.info(
                    "the timelines of a kind have changed with its definition", metadata: ["kind": "\(kind)"])
            }
        }
        return isProgress
    }
}
