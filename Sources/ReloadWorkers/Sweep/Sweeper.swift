import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Turns reloads of everyone into due work, in paced chunks: timelines behind their kind's or app's generation, and the
/// recorded sweeps. Any number of processes may do it at once; a row that one works on is passed over by the others.
struct Sweeper {
    /// What a pass over all that is to be swept has done.
    struct Pass: Equatable {
        var marked = 0
        /// Something is left that has to wait: for room in the bulk lane, for a lease to end, for another process.
        var isHeldBack = false
        /// Chunks of work on retired kinds, and on those whose widgets move.
        var changed = 0

        var isProgress: Bool { marked + changed > 0 }
    }

    let context: WorkerContext
    let directory: DirectoryCache

    /// Sweeps until the task is cancelled.
    ///
    /// - Throws: `CancellationError`; what no time can mend.
    func run() async throws {
        var failures = 0
        while true {
            try Task.checkCancellation()
            let mark = context.signal.mark(.sweeps)
            let began = context.clock.elapsed
            do {
                // What was swept may not be due yet, for spacing or a back-off, and then takes no room: look again.
                while try await pass().isProgress {}
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

    /// Makes due what there is to sweep and room for.
    func pass() async throws -> Pass {
        context.sweepDemand.passBegan()
        var pass = try await sweepKinds()
        let requests = try await sweepRequests()
        pass.marked += requests.marked
        let changes = try await changeKinds()
        pass.changed = changes.changed
        pass.isHeldBack = pass.isHeldBack || requests.isHeldBack || changes.isHeldBack
        context.sweepDemand.passEnded(isHeldBack: pass.isHeldBack)
        return pass
    }

    /// A chunk of each kind in turn, until all are done or have no room.
    private func sweepKinds() async throws -> Pass {
        var pass = Pass()
        let kinds = try await context.pool.query(KindsToSweep(highWater: context.configuration.bulkHighWater))
        var room = SweepRoom(
            context.sweepConfiguration, backlogs: Dictionary(kinds.map { ($0.kindID, $0.backlog) }) { $1 })
        var waiting = kinds.map(\.kindID)
        while !waiting.isEmpty {
            var next: [Int32] = []
            for kindID in waiting {
                try Task.checkCancellation()
                guard let chunk = room.chunk(of: kindID) else {
                    pass.isHeldBack = true
                    continue
                }
                let marked = try await context.pool.execute(SweepKind(kindID: kindID, limit: chunk))
                count(marked, of: [kindID], &room, &pass)
                // Fewer than asked for: what is left, if anything, is leased or being swept by another process.
                if marked == chunk { next.append(kindID) } else { pass.isHeldBack = true }
            }
            waiting = next
        }
        return pass
    }

    func count(_ marked: Int, of kindIDs: [Int32], _ room: inout SweepRoom, _ pass: inout Pass) {
        guard marked > 0 else { return }
        pass.marked += marked
        room.marked(marked, of: kindIDs)
        context.statistics.count { $0.swept += marked }
        context.signal.signal(.timelines)
    }
}
