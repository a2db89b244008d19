// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// A process with the worker role.
struct SimulatedWorker {
    /// Number of the worker's registration.
    let id: Int
    var jobs: [Job] = []
    private var claims = 0
    /// A claim whose statement has begun, with its token if that was taken first.
    private var claiming: (transaction: Transaction, token: Int?)?
    /// A chunk of a walk whose statement has begun.
    private var walking: (kind: Int, transaction: Transaction)?

    init(id: Int) {
        self.id = id
    }

    var isIdle: Bool { jobs.isEmpty && claiming == nil && walking == nil }

    /// Rolls back open transactions.
    func crash(_ database: inout Database, _ output: inout SimulatedOutput) {
        if let claiming { database.rollBack(claiming.transaction) }
        if let walking { database.rollBack(walking.transaction) }
        for job in jobs {
            if let open = job.open { database.rollBack(open.transaction) }
            output.noteUncompared(id, job.number, isKilled: true)
        }
    }

    /// Takes a claim into the pipeline.
    mutating func accept(_ job: Job) {
        claims += 1
        var job = job
        job.number = claims
        jobs.append(job)
    }

    // MARK: Claims

    mutating func beginClaim(_ database: inout Database, takesTokenFirst: Bool, at now: Timestamp) {
        guard claiming == nil else { return }
        database.register(id, at: now)
        let transaction = database.begin(at: now)
        claiming = (transaction, takesTokenFirst ? database.nextToken() : nil)
    }

    /// Leases ready lists that are not locked, and reads their rows in the snapshot of the statement's beginning.
    mutating func endClaim(_ database: inout Database, limit: Int, fault: Fault, at now: Timestamp) {
        guard let claim = claiming else { return }
        claiming = nil
        var transaction = claim.transaction
        let token = claim.token ?? database.nextToken()
        let snapshot = transaction.snapshot
        let ready = snapshot.work.entries.filter {
            $0.row.readyAt <= transaction.now && !snapshot.kinds[$0.row.kind].isPaused
        }
        let ends = transaction.now + SimulatedWorld.lease
        var lists: [HeldList] = []
        for (id, _) in ready.sorted(by: { ($0.row.readyAt, $0.id) < ($1.row.readyAt, $1.id) }) {
            guard lists.count < limit else { break }
            guard database.lock(.work(id), .update, transaction) else { continue }
            guard var row = database.tables.work[id], row.readyAt <= transaction.now else { continue }
            let wasLeased = row.leases > 0
            row.readyAt = ends
            row.lease = token
            row.leases += 1
            transaction.writes.append(.work(id, row))
            lists.append(HeldList(id: id, row: row, wasLeased: wasLeased))
        }
        guard !lists.isEmpty, fault != .lostBefore else { return database.rollBack(transaction) }
        database.commit(transaction, at: now)
        guard fault == .none else { return }
        accept(
            Job(
                lease: token, leaseEnds: ends, lists: lists, reading: snapshot.kinds, rows: snapshot.timelines.entries,
                isHandedOver: false))
    }

    // MARK: Walks

    mutating func beginWalk(_ kind: Int, _ database: inout Database, at now: Timestamp) {
        guard walking == nil, database.tables.sweeps[kind] != nil else { return }
        walking = (kind, database.begin(at: now))
    }

    /// Walks a chunk of a kind: adds rows below the generation to a bulk list. Returns whether it had an effect.
    mutating func endWalk(_ database: inout Database, limit: Int, fault: Fault, at now: Timestamp) -> Bool {
        guard let walk = walking else { return false }
        walking = nil
        let kind = walk.kind
        var transaction = walk.transaction
        defer { database.rollBack(transaction) }
        guard let known = transaction.snapshot.sweeps[kind], database.lock(.sweep(kind), .noKeyUpdate, transaction),
            var sweep = database.tables.sweeps[kind], sweep.first == known.first,
            // The snapshot of a raised walk does not see earlier renderings.
            sweep.generation == known.generation || database.isOn(.walkIgnoresRaise)
        else { return false }
        let snapshot = transaction.snapshot
        let backlog = snapshot.work.entries.filter { $0.row.kind == kind && $0.row.generation != nil }.count
        guard backlog < 3 else { return false }
        let page = snapshot.timelines.entries.filter {
            $0.row.kind == kind && $0.id > sweep.cursor && (!sweep.isWrapped || $0.id <= sweep.until)
        }.prefix(limit)
        let behind = page.filter { $0.row.state.generation < sweep.generation }.map(\.id)
        if !behind.isEmpty {
            database.append(
                WorkList(
                    kind: kind, lane: .bulk, dueAt: transaction.now, readyAt: transaction.now,
                    generation: sweep.generation, timelines: behind), &transaction)
        }
        let isAtEnd = page.count < limit
        let isDone = isAtEnd && (sweep.isWrapped || sweep.until == 0)
        sweep.cursor = isAtEnd ? 0 : page.last?.id ?? 0
        sweep.isWrapped = sweep.isWrapped || isAtEnd
        transaction.writes.append(.sweep(kind, isDone ? nil : sweep))
        if fault != .lostBefore { database.commit(transaction, at: now) }
        return true
    }

    // MARK: Jobs

    /// Whether an earlier claim of this process has a timeline in its pipeline.
    private func isInFlight(_ id: Int, before job: Job) -> Bool {
        jobs.contains { other in
            other.number < job.number
                && other.rows.contains { row in
                    if case .done = row.stage { return false }
                    return row.id == id
                }
        }
    }

    /// Runs one step of a job.
    mutating func step(
        _ place: Int, _ context: JobContext, _ database: inout Database, _ output: inout SimulatedOutput
    ) {
        guard jobs.indices.contains(place) else { return }
        var job = jobs[place]
        var context = context
        context.worker = id
        for row in job.rows.indices {
            switch job.rows[row].stage {
            case .read where isInFlight(job.rows[row].id, before: job): job.rows[row].stage = .waiting
            case .waiting where !isInFlight(job.rows[row].id, before: job): job.readAgain(row, &database)
            default: break
            }
        }
        database.witness.note("worker \(id), claim \(job.number) of lease \(job.lease): \(job)")
        let isEnded = job.step(context, &database, &output)
        if isEnded, job.isGivingBack { output.noteUncompared(id, job.number, isKilled: false) }
        if isEnded { jobs.remove(at: place) } else { jobs[place] = job }
    }
}

/// Environment of a job's step.
struct JobContext {
    let world: SimulatedWorld
    let now: Timestamp
    let fault: Fault
    /// Selects among the possible outcomes.
    let how: Int
    /// Whether all faults are over and providers request no reload by policy.
    let isCalm: Bool
    /// The worker's registration.
    var worker = 0
}
