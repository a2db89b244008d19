import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Turns reloads of everyone and of very large audiences into lists, in paced chunks, and changes the widgets of
/// retired and moved kinds. Any number of processes work concurrently and skip each other's sweeps.
struct Sweeper {
    private static let sweeps = 1_000

    let context: WorkerContext
    let directory: DirectoryCache

    /// Sweeps until the task is cancelled.
    ///
    /// - Throws: `CancellationError`; an error that is not transient.
    func run() async throws {
        try await context.repeatedly("sweep", size: context.sweepSize) {
            let mark = context.signal.mark(.sweeps)
            let began = context.clock.elapsed
            while try await pass() {}
            context.sweepSize.ended(begun: began, isInTime: true, at: context.clock.elapsed)
            _ = try await context.signal.wait(
                past: mark, timeout: WorkerClock.jittered(context.configuration.pollInterval),
                clock: context.clock.clock)
            let rest = context.configuration.sweepSpacing - (context.clock.elapsed - began)
            if rest > .zero { try await context.clock.sleep(for: rest) }
        }
    }

    /// Runs one chunk of each sweep with room, and returns whether any made progress.
    func pass() async throws -> Bool {
        let configuration = context.configuration
        let chunk = context.sweepSize.share(of: configuration.sweepChunk)
        let lists = max(1, configuration.bulkHighWater / Appending.limit)
        var isProgress = false
        for sweep in try await context.pool.query(.listSweeps(limit: Self.sweeps, maximumLists: lists)) {
            try Task.checkCancellation()
            let done =
                sweep.isWalk
                ? try await context.pool.query(.walkKind(sweep.id, limit: chunk, maximumLists: lists)).first
                : try await context.pool.query(.sweepMarks(sweep.id, limit: chunk, maximumLists: lists)).first
            guard let done else { continue }
            isProgress = true
            guard done.timelines > 0 else { continue }
            context.statistics.count { $0.swept += done.timelines }
            context.signal.signal(.timelines)
        }
        return try await changeKinds() || isProgress
    }

    /// Runs a chunk of each kind that is being retired or moved, and returns whether any made progress.
    func changeKinds() async throws -> Bool {
        var isProgress = false
        let store = WidgetStore(pool: context.pool)
        // Each moved widget may orphan one timeline and place another.
        let limit = max(1, context.sweepSize.share(of: context.configuration.sweepChunk) / 2)
        let lists = max(1, context.configuration.bulkHighWater / Appending.limit)
        for kind in try await context.pool.query(.kindsToChange(maximumLists: lists)) {
            try Task.checkCancellation()
            // Nil: another process has it, or its next pass is later.
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
