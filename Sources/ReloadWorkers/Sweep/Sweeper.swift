// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import Waiting
import WidgetModel
import WidgetStore

/// Turns reloads of everyone and of very large audiences into lists, in paced chunks, and changes the widgets of
/// retired and moved kinds. Any number of processes work concurrently and skip each other's sweeps.
struct Sweeper {
    /// Most sweeps of a look at the waiting ones, and longest time until the next look.
    private static let sweeps = 1_000
    private static let longestTurn = Duration.seconds(1)

    let context: WorkerContext
    let directory: DirectoryCache

    /// Sweeps until the task is cancelled.
    ///
    /// - Throws: `CancellationError`; an error that is not transient.
    func run() async throws {
        try await context.repeatedly("sweep", size: context.sweepSize) {
            let version = context.signals.sweeps.version
            let began = context.clock.elapsed
            while try await pass() {}
            context.sweepSize.recordEnd(begun: began, isInTime: true, at: context.clock.elapsed)
            _ = try await context.signals.sweeps.wait(
                past: version, timeout: context.configuration.pollInterval.jittered, clock: context.clock.clock)
            let rest = context.configuration.sweepSpacing - (context.clock.elapsed - began)
            if rest > .zero { try await context.clock.sleep(for: rest) }
        }
    }

    /// Result of one chunk of each item: whether there may be more to do at once, and a transient error of a chunk.
    private typealias Turn = (hasMore: Bool, failure: PostgresError?)

    /// Runs one chunk of each sweep with room and of each kind to change. Returns whether there may be more to do at
    /// once.
    ///
    /// - Throws: `CancellationError`; the error of a chunk if no other chunk made progress; an error that is not
    ///   transient.
    func pass() async throws -> Bool {
        let (sweeps, changes) = (try await sweep(), try await changeKinds())
        let hasMore = sweeps.hasMore || changes.hasMore
        guard let failure = sweeps.failure ?? changes.failure else { return hasMore }
        // The others do not wait for the back-off of one that fails.
        guard hasMore else { throw failure }
        context.metrics.databaseErrors.increment()
        context.logger.error("cannot sweep", metadata: ["error": "\(failure)"])
        return true
    }

    private func sweep() async throws -> Turn {
        let configuration = context.configuration
        let chunk = context.sweepSize.share(of: configuration.sweepChunk)
        let lists = configuration.maximumBulkLists
        let sweeps = try await context.pool.query(.listSweeps(limit: Self.sweeps, maximumLists: lists))
        func runChunk(_ sweep: (id: Int64, isWalk: Bool)) async throws -> Bool {
            let done =
                sweep.isWalk
                ? try await context.pool.query(.walkKind(sweep.id, limit: chunk, maximumLists: lists)).first
                : try await context.pool.query(.sweepMarks(sweep.id, limit: chunk, maximumLists: lists)).first
            guard let done else { return false }
            if done.timelines > 0 {
                context.metrics.swept.increment(by: done.timelines)
                context.signals.timelines.signal()
            }
            return true
        }
        return try await run(sweeps, chunk: runChunk) { Statements.postponeSweep($0.id) }
    }

    /// Runs a chunk of each kind that is being retired or moved.
    private func changeKinds() async throws -> Turn {
        let store = WidgetStore(pool: context.pool)
        // Each moved widget may orphan one timeline and place another.
        let limit = max(1, context.sweepSize.share(of: context.configuration.sweepChunk) / 2)
        let lists = context.configuration.maximumBulkLists
        let kinds = try await context.pool.query(.kindsToChange(maximumLists: lists))
        func runChunk(_ kind: Int32) async throws -> Bool {
            // Nil: another process has it, or its next pass is later.
            let chunk = try await store.changeChunk(
                kindID: kind, limit: limit, grace: context.configuration.definitionGrace)
            guard let chunk else { return false }
            if chunk.orphans + chunk.placed > 0 { context.signals.timelines.signal() }
            if chunk.isEnd {
                context.logger.info(
                    "the timelines of a kind have changed with its definition", metadata: ["kind": "\(kind)"])
            }
            return true
        }
        return try await run(kinds, chunk: runChunk) { Statements.postponeKindChange(kindID: $0) }
    }

    /// Runs a chunk of each item, in order, for a second at most.
    ///
    /// The items are in turns between apps. The time limit bounds the wait of an app whose work was recorded meanwhile,
    /// and an item whose chunk fails goes behind the others.
    private func run<Item>(
        _ items: [Item], chunk: (Item) async throws -> Bool, postpone: (Item) -> PostgresQuery<Void>
    ) async throws -> Turn {
        let began = context.clock.elapsed
        var turn: Turn = (false, nil)
        for item in items {
            try Task.checkCancellation()
            guard context.clock.elapsed - began < Self.longestTurn else {
                turn.hasMore = true
                break
            }
            do {
                if try await chunk(item) { turn.hasMore = true }
            } catch let error as PostgresError where error.canPass {
                // All chunks of a turn have the same size, so it is halved once.
                if error.asksForLess {
                    context.sweepSize.recordEnd(begun: began, isInTime: false, at: context.clock.elapsed)
                }
                turn.failure = turn.failure ?? error
                _ = try await context.pool.execute(postpone(item))
            }
        }
        return turn
    }
}
