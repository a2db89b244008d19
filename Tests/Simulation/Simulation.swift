// SPDX-License-Identifier: Apache-2.0

import Randomness
import WidgetModel

/// A run of a schedule: a small model of Freshet in memory, in one thread, with all possible faults.
///
/// Runs the steps, heals all faults, continues until no work is left, and checks the invariants during and after the
/// run.
struct Simulation {
    let world: SimulatedWorld
    let mutation: Mutation?
    var now = SimulatedWorld.start
    var database: Database
    var output = SimulatedOutput()
    var log: [[SimulatedEvent]] = Array(repeating: [], count: SimulatedWorld.partitions)
    private var produced = 0
    /// Process to which the group has assigned a partition.
    var owners: [Int?] = Array(repeating: nil, count: SimulatedWorld.partitions)
    var ingests = Array(repeating: SimulatedIngest(), count: SimulatedWorld.ingests)
    var workers: [SimulatedWorker] = (0..<SimulatedWorld.workers).map { SimulatedWorker(id: $0) }
    private var registrations = SimulatedWorld.workers
    /// Registrations of killed processes, with their times.
    private var killed: [(id: Int, time: Timestamp)] = []
    /// Source of decisions that the steps do not make: the order of healing.
    var random: SeededGenerator
    /// Whether faults are over.
    var isHealed = false
    /// Whether providers request no further reloads by policy.
    var isCalm = false

    init(world: SimulatedWorld, mutation: Mutation?, random: SeededGenerator, keepsJournal: Bool = false) {
        self.world = world
        self.mutation = mutation
        self.random = random
        database = Database(world, mutation: mutation, keepsJournal: keepsJournal)
    }

    /// - Parameter trace: Receives each step before it runs.
    /// - Returns: The first violated invariant.
    mutating func run(_ steps: [Step]) -> Violation? {
        for step in steps {
            if world.ticks { now = now + .microseconds(1) }
            database.witness.note("\(step)")
            happen(step)
            if let violation = database.witness.violation { return violation }
        }
        heal()
        if database.witness.violation == nil { checkQuiet() }
        return database.witness.violation
    }

    private mutating func happen(_ step: Step) {
        switch step {
        case .produce(let what, let of, let how): produce(Int(what), Int(of), Int(how))
        case .assign(let partition, let process):
            owners[Int(partition)] = Int(process)
            ingests[Int(process)].assign(Int(partition))
        case .tell(let process): tell(Int(process))
        case .crashIngest(let process):
            ingests[Int(process)].crash(&database)
            for partition in owners.indices where owners[partition] == Int(process) { owners[partition] = nil }
        case .poll(let process, let count):
            ingests[Int(process)].take(&database, at: now)
            ingests[Int(process)].poll(log, count: Int(count))
        case .apply(let process, let steps, let fault, let hasRoom):
            for step in 1...max(1, steps) {
                apply(Int(process), fault: step == steps ? fault : .none, hasRoom: hasRoom)
            }

        case .beginWalk(let worker, let kind): workers[Int(worker)].beginWalk(Int(kind), &database, at: now)
        case .endWalk(let worker, let limit, let fault):
            _ = workers[Int(worker)].endWalk(&database, limit: Int(limit), fault: fault, at: now)
        case .beginClaim(let worker, let takesTokenFirst):
            workers[Int(worker)].beginClaim(&database, takesTokenFirst: takesTokenFirst, at: now)
        case .endClaim(let worker, let limit, let fault):
            workers[Int(worker)].endClaim(&database, limit: Int(limit), fault: fault, at: now)
        case .work(let worker, let pick, let steps, let fault, let how):
            let count = workers[Int(worker)].jobs.count
            guard count > 0 else { return }
            // Steps continue with the same job for as long as it exists.
            let number = workers[Int(worker)].jobs[Int(pick) % count].number
            for step in 0..<max(1, Int(steps)) {
                guard let place = workers[Int(worker)].jobs.firstIndex(where: { $0.number == number }) else { return }
                let isLast = step == Int(steps) - 1
                work(Int(worker), place, fault: isLast ? fault : .none, how: Int(how) + step)
            }
        case .crashWorker(let worker): crashWorker(Int(worker))
        case .stopWorker(let worker):
            for job in workers[Int(worker)].jobs.indices { workers[Int(worker)].jobs[job].isGivingBack = true }
        case .land(let pick):
            guard !output.flights.isEmpty else { return }
            output.land(at: Int(pick) % output.flights.count, &database.witness)
        case .lose(let pick):
            guard !output.flights.isEmpty else { return }
            output.lose(at: Int(pick) % output.flights.count)
        case .delay(let pick):
            guard !output.flights.isEmpty else { return }
            output.delay(at: Int(pick) % output.flights.count)
        case .pause(let kind): setPaused(Int(kind), true)
        case .resume(let kind): setPaused(Int(kind), false)
        case .cancel(let kind): cancel(Int(kind))
        case .pass(let seconds): pass(.seconds(seconds))
        }
    }

    // MARK: The log

    private mutating func produce(_ what: Int, _ of: Int, _ how: Int) {
        produced += 1
        // Some events carry an older time than an earlier one.
        let time = produced - [0, 0, 0, 2, 5][how % 5]
        let widget = of % SimulatedWorld.widgets
        let user = SimulatedWorld.user(of: widget)
        let reasons: [ReloadReason] = [.push, .background, .foreground, .environment, .operator, .push, .push]
        let reason = reasons[how % reasons.count]
        let anywhere = how / 7 % SimulatedWorld.partitions
        switch what % 12 {
        case 0...2:
            log[user].append(
                .place(widget: widget, identity: how / 5 % SimulatedWorld.identities, changedAt: time))
        case 3, 4: log[user].append(.remove(widget: widget, changedAt: time))
        case 5: log[user].append(.view(widget: widget))
        case 6, 7: log[anywhere].append(.reloadUser(user, reason: reason))
        case 8, 9: log[anywhere].append(.reloadWidget(widget, reason: reason))
        case 10: log[anywhere].append(.reloadKind(of % SimulatedWorld.kinds, reason: reason))
        default: log[anywhere].append(.reloadKind(nil, reason: reason))
        }
    }

    private mutating func tell(_ process: Int) {
        for partition in owners.indices where owners[partition] != process { ingests[process].revoke(partition) }
    }

    /// An ingest process shares its process with the worker of the same number.
    mutating func apply(_ process: Int, fault: Fault, hasRoom: Bool) {
        if let handed = ingests[process].apply(&database, hasRoom: hasRoom, fault: fault, at: now) {
            workers[process].accept(handed)
        }
    }

    // MARK: Workers

    mutating func work(_ worker: Int, _ place: Int, fault: Fault, how: Int) {
        let context = JobContext(world: world, now: now, fault: fault, how: how, isCalm: isCalm)
        workers[worker].step(place, context, &database, &output)
    }

    private mutating func crashWorker(_ worker: Int) {
        workers[worker].crash(&database, &output)
        killed.append((workers[worker].id, now))
        registrations += 1
        workers[worker] = SimulatedWorker(id: registrations)
    }

    // MARK: Operators and time

    mutating func setPaused(_ kind: Int, _ isPaused: Bool) {
        var transaction = database.begin(at: now)
        if database.lock(.kind(kind), .noKeyUpdate, transaction) {
            var row = database.tables.kinds[kind]
            row.isPaused = isPaused
            transaction.writes.append(.kind(kind, row))
            database.commit(transaction, at: now)
        } else {
            database.rollBack(transaction)
        }
    }

    /// Cancels pending reloads of everyone, with the unleased lists of their walks.
    private mutating func cancel(_ kind: Int) {
        var transaction = database.begin(at: now)
        guard database.lock(.kind(kind), .noKeyUpdate, transaction), database.lock(.sweep(kind), .update, transaction)
        else { return database.rollBack(transaction) }
        var row = database.tables.kinds[kind]
        row.generations.cancelled = row.generations.current
        transaction.writes.append(.kind(kind, row))
        transaction.writes.append(.sweep(kind, nil))
        for (id, list) in database.tables.work.entries where list.kind == kind && list.generation != nil {
            guard list.leases == 0 || mutation == .cancelDeletesLeased else { continue }
            if database.lock(.work(id), .update, transaction) { transaction.writes.append(.work(id, nil)) }
        }
        database.commit(transaction, at: now)
        for (id, row) in database.tables.timelines.entries where row.kind == kind { database.witness.cancelled(id) }
    }

    /// Messages under way arrive or are lost before their deadlines; killed processes are unregistered.
    mutating func pass(_ duration: Duration) {
        now = now + duration
        while let late = output.flights.firstIndex(where: { !$0.isOverdue && $0.deadline <= now }) {
            if output.flights[late].id % 4 == 0 {
                output.lose(at: late)
            } else {
                output.land(at: late, &database.witness)
            }
        }
        for process in killed where now - process.time > .seconds(600) { database.forget(process.id) }
        killed.removeAll { now - $0.time > .seconds(600) }
    }
}
