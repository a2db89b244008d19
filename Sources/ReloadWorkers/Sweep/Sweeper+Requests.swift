import PostgresClient
import WidgetModel
import WidgetStore

extension Sweeper {
    /// How many recorded sweeps are started at once.
    private static let startLimit = 100

    /// What became of a recorded sweep's turn.
    private enum Turn {
        /// No other sweep is left for this round.
        case none
        /// A chunk was looked at; `isDone` when it was the last one.
        case chunk(id: Int64, marked: Int, kindIDs: [Int32], isDone: Bool)
        /// Its kinds have no room.
        case heldBack(id: Int64)
    }

    /// A chunk of each recorded sweep in turn, until all are done or have no room.
    func sweepRequests() async throws -> Pass {
        var pass = Pass()
        var started = try await context.pool.execute(StartSweeps(limit: Self.startLimit))
        var room: SweepRoom?
        var last: Int64 = 0
        var hasMoreToDo = false
        while true {
            try Task.checkCancellation()
            switch try await turn(after: last, &room) {
            case .none:
                guard hasMoreToDo || started == Self.startLimit else { return pass }
                if started == Self.startLimit {
                    started = try await context.pool.execute(StartSweeps(limit: Self.startLimit))
                }
                hasMoreToDo = false
                last = 0
            case .chunk(let id, let marked, let kindIDs, let isDone):
                last = id
                if var known = room {
                    count(marked, of: kindIDs, &known, &pass)
                    room = known
                }
                if !isDone { hasMoreToDo = true }
            case .heldBack(let id):
                last = id
                pass.isHeldBack = true
            }
        }
    }

    /// One transaction: locks the next sweep, makes a chunk of it due, and moves its cursor.
    private func turn(after last: Int64, _ room: inout SweepRoom?) async throws -> Turn {
        var known = room
        defer { room = known }
        return try await context.pool.withTransaction { connection in
            guard let sweep = try await connection.query(NextSweep(after: last)).first else { return .none }
            let current: SweepRoom
            if let known {
                current = known
            } else {
                current = try await readRoom(connection)
                known = current
            }
            switch sweep.audience {
            case .everyone: return try await sweepEveryone(sweep, current, connection)
            case .user, .device: return try await sweepAudience(sweep, current, connection)
            }
        }
    }

    private func readRoom(_ connection: PostgresConnection) async throws -> SweepRoom {
        let due = try await connection.query(DueWork(limit: context.configuration.bulkHighWater))
        let bulk = due.filter { $0.lane == .bulk }.map { ($0.kindID, $0.count) }
        return SweepRoom(context.sweepConfiguration, backlogs: Dictionary(bulk) { $1 })
    }

    /// The kinds one after another, each from the cursor on.
    private func sweepEveryone(
        _ sweep: SweepProgress, _ room: SweepRoom, _ connection: PostgresConnection
    ) async throws -> Turn {
        // Those before the cursor are done.
        let left = sweep.kindIDs.filter { $0 >= sweep.cursorKind }
        let kindIDs: [Int32]
        switch try await scope(left, connection) {
        case .kinds(let ids): kindIDs = ids
        case .paused(let paused, let others):
            return try await leave(paused, of: sweep, keeping: others, connection)
        }
        guard let kindID = kindIDs.first else { return try await finish(sweep, marked: 0, [], connection) }
        guard let limit = room.chunk(of: kindID) else { return .heldBack(id: sweep.id) }
        var progress = sweep
        if kindID != sweep.cursorKind {
            progress.cursorKind = kindID
            progress.cursorTimeline = TimelineID(high: 0, low: 0)
        }
        let chunk = SweepEveryoneChunk(progress, kindID: kindID, limit: limit)
        let outcome = try await connection.query(chunk).first
        let (examined, marked) = (outcome?.examined ?? 0, outcome?.marked ?? 0)
        if examined < limit {
            guard let next = kindIDs.first(where: { $0 > kindID }) else {
                return try await finish(sweep, marked: marked, [kindID], connection)
            }
            progress.cursorKind = next
            progress.cursorTimeline = TimelineID(high: 0, low: 0)
        } else if let last = outcome?.lastTimeline {
            progress.cursorTimeline = last
        }
        _ = try await connection.execute(MoveSweep(progress))
        return .chunk(id: sweep.id, marked: marked, kindIDs: [kindID], isDone: false)
    }

    /// The audience's widgets from the cursor on; a chunk may hold timelines of any of the kinds.
    private func sweepAudience(
        _ sweep: SweepProgress, _ room: SweepRoom, _ connection: PostgresConnection
    ) async throws -> Turn {
        let kindIDs: [Int32]
        switch try await scope(sweep.kindIDs, connection) {
        case .kinds(let ids): kindIDs = ids
        case .paused(let paused, let others):
            return try await leave(paused, of: sweep, keeping: others, connection)
        }
        guard !kindIDs.isEmpty else { return try await finish(sweep, marked: 0, [], connection) }
        guard let limit = room.chunk(of: kindIDs) else { return .heldBack(id: sweep.id) }
        let outcome = try await connection.query(SweepAudienceChunk(sweep, limit: limit)).first
        let (examined, marked) = (outcome?.examined ?? 0, outcome?.marked ?? 0)
        guard examined == limit, let last = outcome?.lastWidget else {
            return try await finish(sweep, marked: marked, kindIDs, connection)
        }
        var progress = sweep
        progress.cursorWidget = last
        _ = try await connection.execute(MoveSweep(progress))
        return .chunk(id: sweep.id, marked: marked, kindIDs: kindIDs, isDone: false)
    }

    /// What of a sweep may be swept now.
    private enum Scope {
        /// The kinds that have not been retired since: nobody would claim their timelines, and their backlog would hold
        /// the sweep back for ever.
        case kinds([Int32])
        /// Some of them are paused, and all the others.
        case paused([Int32], others: [Int32])
    }

    private func scope(_ kindIDs: [Int32], _ connection: PostgresConnection) async throws -> Scope {
        let states = try await connection.query(KindStates(kindIDs)).filter { !$0.isRetired }
        let paused = states.filter(\.isPaused).map(\.kindID)
        let others = states.filter { !$0.isPaused }.map(\.kindID)
        return paused.isEmpty ? .kinds(others) : .paused(paused, others: others)
    }

    /// What is paused waits in a sweep of its own, and holds up nothing else.
    private func leave(
        _ paused: [Int32], of sweep: SweepProgress, keeping others: [Int32], _ connection: PostgresConnection
    ) async throws -> Turn {
        guard !others.isEmpty else { return .heldBack(id: sweep.id) }
        _ = try await connection.execute(SplitSweep(sweep.id, keeping: others, leaving: paused))
        return .chunk(id: sweep.id, marked: 0, kindIDs: [], isDone: false)
    }

    private func finish(
        _ sweep: SweepProgress, marked: Int, _ kindIDs: [Int32], _ connection: PostgresConnection
    ) async throws -> Turn {
        _ = try await connection.execute(FinishSweep(sweep.id))
        return .chunk(id: sweep.id, marked: marked, kindIDs: kindIDs, isDone: true)
    }
}
