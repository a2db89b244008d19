import WidgetModel

// What a worker does with what it has claimed: each step is a statement, a request, or a message, and may fail.

extension Simulation {
    /// Whether the job goes on.
    private enum Next {
        case stays(SimulatedWorker.Job.Stage)
        case done
    }

    /// One step of a job.
    mutating func work(_ worker: Int, _ index: Int, _ fault: Fault, how: Int) {
        var job = workers[worker].jobs[index]
        switch step(&job, fault, how) {
        case .stays(let stage):
            job.stage = stage
            workers[worker].jobs[index] = job
        case .done:
            workers[worker].jobs.remove(at: index)
        }
    }

    /// A job to its end, or so many steps of it: what it waits for comes, unless it was lost.
    ///
    /// - Returns: whether it is still there.
    mutating func finish(_ worker: Int, _ index: Int, steps: Int = 16, how: Int) -> Bool {
        let count = workers[worker].jobs.count
        for _ in 0..<steps {
            var fault = Fault.none
            switch workers[worker].jobs[index].stage {
            case .sent(let id), .burying(let id):
                if let index = output.position(of: id) { output.land(at: index, mutation: mutation, &store.witness) }
                if !output.isAcknowledged(id) { fault = .lostBefore }
            default: break
            }
            work(worker, index, fault, how: how)
            if workers[worker].jobs.count < count { return false }
        }
        return true
    }

    private mutating func step(_ job: inout SimulatedWorker.Job, _ fault: Fault, _ how: Int) -> Next {
        // With this mutation, what is fetched goes out first, and is saved when it was acknowledged.
        let isPublishedFirst = mutation == .publishBeforeSave && !job.claim.isOrphaned
        return switch job.stage {
        case .claimed: begin(&job, fault)
        case .fetching: fetch(&job, fault, how)
        case .fetched where isPublishedFirst: publish(&job, fault)
        case .fetched: save(&job, fault)
        case .saved where isPublishedFirst: complete(&job, fault)
        case .saved: publish(&job, fault)
        case .sent(let id): awaitAcknowledgement(id, &job, fault, how)
        case .published where job.claim.isOrphaned: collect(job, fault)
        case .published where isPublishedFirst: save(&job, fault)
        case .published: complete(&job, fault)
        case .fenced: settle(job, fault)
        case .burying(let id): bury(id, job, fault)
        }
    }

    /// A statement that is tried again (`WorkerContext.persistently`): nil when its answer was lost, or it never arrived.
    private mutating func persistently<Answer>(_ fault: Fault, _ body: (inout Simulation) -> Answer) -> Answer? {
        switch fault {
        case .none: return body(&self)
        case .lostBefore: return nil
        case .lostAfter:
            _ = body(&self)
            return nil
        }
    }

    /// After a failed attempt: again, unless the lease is over on the worker's clock.
    private func retry(_ job: SimulatedWorker.Job) -> Next {
        now < job.leaseEnds ? .stays(job.stage) : .done
    }

    /// `BatchPlan`, `DeferralRunner`, the beginning of `CollectionRunner` and of `BatchRunner`.
    private mutating func begin(_ job: inout SimulatedWorker.Job, _ fault: Fault) -> Next {
        if job.claim.isOrphaned {
            guard job.leaseEnds - now > SimulatedWorld.longestPublish else { return .done }
            return .stays(.sent(output.send(job.timeline, revision: job.claim.number, value: nil)))
        }
        let (timeline, claim) = (job.timeline, job.claim)
        switch job.plan {
        case .wait(let until, _):
            let done: Void? = persistently(fault) { $0.store.deferred(timeline, claim, until: until, at: $0.now) }
            return done == nil ? retry(job) : .done
        case .sleep:
            let done: Void? = persistently(fault) { $0.store.deferred(timeline, claim, until: nil, at: $0.now) }
            return done == nil ? retry(job) : .done
        case .reload:
            guard job.leaseEnds - now > SimulatedWorld.longestPublish else { return fail(job, fault, how: 0) }
            job.fetchedAt = store.witness.fetchBegins()
            return .stays(.fetching)
        }
    }

    /// `BatchRunner.fail`.
    private mutating func fail(_ job: SimulatedWorker.Job, _ fault: Fault, how: Int) -> Next {
        let (timeline, claim) = (job.timeline, job.claim)
        let delay = Duration.seconds(how % 120)
        let done: Void? = persistently(fault) { $0.store.fail(timeline, claim, delay: delay, at: $0.now) }
        return done == nil ? retry(job) : .done
    }

    private mutating func fetch(_ job: inout SimulatedWorker.Job, _ fault: Fault, _ how: Int) -> Next {
        guard fault == .none else { return fail(job, .none, how: how) }
        // Often what it was: the gate has to tell.
        job.value = UInt8(how % 2)
        switch isHealed ? 0 : how / 3 % 4 {
        case 0...1: job.policy = .never
        case 2: job.policy = .after(now + .seconds(60 * how))
        default: job.policy = .after(now)
        }
        return .stays(.fetched)
    }

    /// `BatchRunner.save`.
    private mutating func save(_ job: inout SimulatedWorker.Job, _ fault: Fault) -> Next {
        let copy = job
        let answer = persistently(fault) {
            $0.store.save(
                copy.timeline, claim: copy.claim.number, value: copy.value, hash: copy.hash, fetchedAt: copy.fetchedAt)
        }
        guard let answer else { return retry(job) }
        guard let saved = answer else { return .done }
        job.isChanged = saved.isChanged
        job.publishedHash = saved.publishedHash
        return .stays(.saved)
    }

    /// `BatchRunner.publish`.
    private mutating func publish(_ job: inout SimulatedWorker.Job, _ fault: Fault) -> Next {
        guard job.needsPublishing else { return .stays(.published) }
        guard job.leaseEnds - now > SimulatedWorld.longestPublish, fault != .lostBefore else { return release(job) }
        return .stays(.sent(output.send(job.timeline, revision: job.claim.number, value: job.value)))
    }

    /// What could not be published, or was not acknowledged: its fate is unknown.
    private mutating func release(_ job: SimulatedWorker.Job) -> Next {
        store.release(job.timeline, job.claim, delay: .seconds(5), at: now)
        return .done
    }

    private mutating func awaitAcknowledgement(_ id: Int, _ job: inout SimulatedWorker.Job, _ fault: Fault, _ how: Int)
        -> Next
    {
        guard output.isAcknowledged(id) else {
            // It waits, or gives up.
            return fault != .none || how % 8 == 0 ? release(job) : .stays(.sent(id))
        }
        guard fault == .none else { return release(job) }
        job.isPublished = true
        return .stays(.published)
    }

    /// `BatchRunner.complete`.
    private mutating func complete(_ job: inout SimulatedWorker.Job, _ fault: Fault) -> Next {
        let copy = job
        let rules = world.rules[SimulatedWorld.kind(of: job.timeline)]
        var ledger = job.claim.state.ledger
        if case .reload(_, let planned) = job.plan { ledger = planned }
        let completion = rules.completion(
            of: job.claim, timeline: SimulatedWorld.id(of: job.timeline), policy: job.policy, lastEntry: now,
            ledger: ledger, publishedHash: job.isPublished ? job.hash : nil, at: now)
        let held = persistently(fault) {
            $0.store.complete(copy.timeline, completion, fetchedAt: copy.fetchedAt, at: $0.now)
        }
        guard let held else { return retry(job) }
        return held || !job.isPublished ? .done : .stays(.fenced)
    }

    /// `PublishedAnew.settle`.
    private mutating func settle(_ job: SimulatedWorker.Job, _ fault: Fault) -> Next {
        let timeline = job.timeline
        if mutation == .fencedPublisherIsSilent {
            store.witness.mended(timeline, revision: job.claim.number)
            return .done
        }
        guard let exists = persistently(fault, { $0.store.republish(timeline, at: $0.now) }) else { return retry(job) }
        guard !exists else {
            store.witness.mended(timeline, revision: job.claim.number)
            return .done
        }
        return .stays(.burying(output.send(timeline, revision: job.claim.number, value: nil)))
    }

    /// The end of `PublishedAnew.settle`, after a tombstone for what does not exist any more.
    private mutating func bury(_ id: Int, _ job: SimulatedWorker.Job, _ fault: Fault) -> Next {
        let timeline = job.timeline
        let isAcknowledged = output.isAcknowledged(id)
        guard isAcknowledged || fault != .none else { return .stays(.burying(id)) }
        _ = store.republish(timeline, at: now)
        if isAcknowledged { store.witness.mended(timeline, revision: job.claim.number) }
        return .done
    }

    /// The end of `CollectionRunner.collect`.
    private mutating func collect(_ job: SimulatedWorker.Job, _ fault: Fault) -> Next {
        let (timeline, claim) = (job.timeline, job.claim)
        guard let isDeleted = persistently(fault, { $0.store.collect(timeline, claim, at: $0.now) }) else {
            return retry(job)
        }
        if !isDeleted { _ = store.republish(timeline, at: now) }
        store.witness.mended(timeline, revision: claim.number)
        return .done
    }
}
