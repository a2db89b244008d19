import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Turns reloads of everyone, and of very large audiences, into lists, in paced chunks; and changes the widgets of kinds that
/// are retired or moved. Any number of processes may do it at once: a sweep that one works on is passed over by the others.
struct Sweeper {
    /// Sweeps that are looked at in one pass.
    private static let sweeps = 1_000

    let context: WorkerContext
    let directory: DirectoryCache

    /// Sweeps until the task is cancelled.
    ///
    /// - Throws: `CancellationError`; an error that is not transient.
    func run() async throws {
        var failures = 0
        while true {
            try Task.checkCancellation()
            let mark = context.signal.mark(.sweeps)
            let began = context.clock.elapsed
            do {
                while try await pass() {}
                failures = 0
                context.sweepSize.ended(begun: began, isInTime: true, at: context.clock.elapsed)
            } catch let error as PostgresError {
                guard error.canPass else { throw error }
                context.statistics.count { $0.databaseErrors += 1 }
                if error.asksForLess {
                    context.sweepSize.ended(begun: began, isInTime: false, at: context.clock.elapsed)
                }
                failures += 1
                context.logger.error("cannot sweep", metadata: ["error": "\(error)", "failures": "\(failures)"])
                try await context.clock.sleep(for: context.configuration.databaseBackoff.bound(attempt: failures))
                continue
            }
            _ = try await context.signal.wait(
                past: mark, timeout: WorkerClock.jittered(context.configuration.pollInterval),
                clock: context.clock.clock)
            let rest = context.configuration.sweepSpacing - (context.clock.elapsed - began)
            if rest > .zero { try await context.clock.sleep(for: rest) }
        }
    }

    /// One chunk of each sweep that has room; answers whether any made progress.
    func pass() async throws -> Bool {
        let configuration = context.configuration
        let chunk = context.sweepSize.share(of: configuration.sweepChunk)
        let lists = max(1, configuration.bulkHighWater / Appending.limit)
        var isProgress = false
        for sweep in try await context.pool.query(ListSweeps(limit: Self.sweeps, maximumLists: lists)) {
            try Task.checkCancellation()
            let done =
                sweep.isWalk
                ? try await context.pool.query(WalkKind(sweep.id, limit: chunk, maximumLists: lists)).first
                : try await context.pool.query(SweepMarks(sweep.id, limit: chunk, maximumLists: lists)).first
            guard let done else { continue }
            isProgress = true
            guard done.timelines > 0 else { continue }
            context.statistics.count { $0.swept += done.timelines }
            context.signal.signal(.timelines)
        }
        return try await changeKinds() || isProgress
    }
}
