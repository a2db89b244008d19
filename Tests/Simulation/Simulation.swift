import WidgetModel

/// One run of a schedule: a small Freshet in one thread, in memory, with everything that can go wrong on its way.
///
/// It goes through the steps, then heals all and runs until nothing is left to do, and looks whether the invariants hold,
/// on the way and in the end.
struct Simulation {
    let world: SimulatedWorld
    let mutation: Mutation?
    var now = SimulatedWorld.start
    var store: SimulatedStore
    var output = SimulatedOutput()
    var log: [[SimulatedEvent]] = Array(repeating: [], count: SimulatedWorld.partitions)
    private var produced = 0
    /// Which process the group has given a partition to.
    var owners: [Int?] = Array(repeating: nil, count: SimulatedWorld.partitions)
    var ingests = Array(repeating: SimulatedIngest(), count: SimulatedWorld.ingests)
    var workers = Array(repeating: SimulatedWorker(), count: SimulatedWorld.workers)
    /// Decides what is not in the steps: in which order all is healed.
    var random: SeededGenerator
    /// From here on nothing goes wrong, and providers want no reload by policy.
    var isHealed = false

    init(world: SimulatedWorld, mutation: Mutation?, random: SeededGenerator) {
        self.world = world
        self.mutation = mutation
        self.random = random
        store = SimulatedStore(mutation: mutation)
    }

    /// - Returns: what did not hold, first.
    mutating func run(_ steps: [Step]) -> Violation? {
        for step in steps {
            happen(step)
            if let violation = store.witness.violation { return violation }
        }
        heal()
        if store.witness.violation == nil { checkQuiet() }
        return store.witness.violation
    }

    private mutating func happen(_ step: Step) {
        switch step {
        case .produce(let what, let of, let how): produce(Int(what), Int(of), Int(how))
        case .assign(let partition, let process):
            owners[Int(partition)] = Int(process)
            ingests[Int(process)].assign(Int(partition))
        case .tell(let process): tell(Int(process))
        case .crashIngest(let process):
            ingests[Int(process)] = SimulatedIngest()
            for partition in owners.indices where owners[partition] == Int(process) { owners[partition] = nil }
        case .moveEpoch(let partition): store.moveEpoch(of: Int(partition))
        case .poll(let process, let count):
            ingests[Int(process)].take(&store)
            ingests[Int(process)].poll(log, count: Int(count))
        case .apply(let process, let fault, let lag):
            ingests[Int(process)].apply(&store, fault: fault, at: now - .seconds(Int(lag)))

        case .beginSweep(let worker, let kind): workers[Int(worker)].sweeping = (Int(kind), snapshot())
        case .endSweep(let worker, let limit): endSweep(Int(worker), limit: Int(limit))
        case .sweepRecorded(let pick, let limit): _ = store.sweepRecorded(Int(pick), limit: Int(limit), at: now)

        case .beginClaim(let worker): workers[Int(worker)].claiming = snapshot()
        case .endClaim(let worker, let from, let limit): endClaim(Int(worker), from: Int(from), limit: Int(limit))
        case .work(let worker, let pick, let steps, let fault, let how):
            guard !workers[Int(worker)].jobs.isEmpty else { return }
            let (worker, index) = (Int(worker), Int(pick) % workers[Int(worker)].jobs.count)
            guard finish(worker, index, steps: Int(steps) - 1, how: Int(how)) else { return }
            work(worker, index, fault, how: Int(how))
        case .finish(let worker, let pick, let how):
            guard !workers[Int(worker)].jobs.isEmpty else { return }
            _ = finish(Int(worker), Int(pick) % workers[Int(worker)].jobs.count, how: Int(how))
        case .crashWorker(let worker): workers[Int(worker)] = SimulatedWorker()
        case .stopWorker(let worker):
            for job in workers[Int(worker)].jobs { store.release(job.timeline, job.claim, delay: .zero, at: now) }
            workers[Int(worker)] = SimulatedWorker()

        case .land(let pick):
            if !output.network.isEmpty {
                output.land(at: Int(pick) % output.network.count, mutation: mutation, &store.witness)
            }
        case .lose(let pick):
            if !output.network.isEmpty { output.lose(at: Int(pick) % output.network.count) }

        case .pause(let kind): store.kinds[Int(kind)].isPaused = true
        case .resume(let kind): store.kinds[Int(kind)].isPaused = false
        case .cancel(let kind):
            // Waits for sweeps under way, and they for it: see `SweepKind`.
            for worker in workers.indices where workers[worker].sweeping?.kind == Int(kind) {
                workers[worker].sweeping = nil
            }
            store.cancel(Int(kind))
        case .pass(let seconds): now = now + .seconds(seconds)
        }
    }

    // MARK: The log

    private mutating func produce(_ what: Int, _ of: Int, _ how: Int) {
        produced += 1
        let widget = of % SimulatedWorld.widgets
        let user = of % SimulatedWorld.users
        // Lifecycle events carry the time at which they happened, and may come late.
        let changedAt = produced - (how & 0xC0 == 0xC0 ? 4 : 0)
        let urgency = RequestUrgency.allCases[how % 3]
        let kind = how / 3 % 3
        let event: SimulatedEvent
        var partition = user
        switch what % 14 {
        case 0...3:
            event = .place(
                widget: widget, timeline: SimulatedWorld.timeline(of: widget, choice: how), changedAt: changedAt)
            partition = SimulatedWorld.user(of: widget)
        case 4:
            event = .remove(widget: widget, changedAt: changedAt)
            partition = SimulatedWorld.user(of: widget)
        case 5:
            event = .view(widget: widget)
            partition = SimulatedWorld.user(of: widget)
        case 6...7: event = .reloadUser(user, kind: kind == 2 ? nil : kind, urgency: urgency)
        case 8:
            event = .reloadWidget(widget, urgency: urgency)
            partition = SimulatedWorld.user(of: widget)
        case 9...10: event = .reloadKind(kind % 2, urgency: urgency)
        case 11: event = .reloadApp(urgency: urgency)
        default: event = .reloadMatching(parity: kind % 2, urgency: urgency)
        }
        log[partition].append(event)
    }

    /// Tells a process what the group has given to others.
    private mutating func tell(_ process: Int) {
        for partition in owners.indices where owners[partition] != process { ingests[process].revoke(partition) }
    }

    // MARK: Statements with a snapshot

    private func snapshot() -> SimulatedWorker.Snapshot {
        SimulatedWorker.Snapshot(now: now, scopes: store.kinds.indices.map { store.scope(of: $0) })
    }

    private mutating func endSweep(_ worker: Int, limit: Int) {
        // Without a beginning it is all at once.
        let sweeping = workers[worker].sweeping ?? (limit % 2, snapshot())
        workers[worker].sweeping = nil
        _ = store.sweep(
            sweeping.kind, to: sweeping.snapshot.scopes[sweeping.kind], limit: limit, at: sweeping.snapshot.now)
    }

    mutating func endClaim(_ worker: Int, from first: Int, limit: Int) {
        let snapshot = workers[worker].claiming ?? snapshot()
        workers[worker].claiming = nil
        var left = limit
        for index in 0..<SimulatedWorld.timelines where left > 0 {
            let timeline = (first + index) % SimulatedWorld.timelines
            let kind = SimulatedWorld.kind(of: timeline)
            guard !store.kinds[kind].isPaused,
                let claim = store.claim(timeline, in: snapshot.scopes[kind], at: snapshot.now)
            else { continue }
            left -= 1
            workers[worker].jobs.append(
                SimulatedWorker.Job(
                    timeline: timeline, claim: claim, plan: world.rules[kind].plan(claim.state, at: claim.claimedAt),
                    leaseEnds: claim.claimedAt + SimulatedWorld.lease))
        }
    }
}
