// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import Synchronization
import WidgetModel
import WidgetStore

/// The way of a timeline through the workers: decide → fetch → store → publish → end. Claims and the hand-over enter it
/// at *decide*; each step works on groups.
final class Pipeline: Sendable {
    /// Work that runs as a task of its own.
    enum Work: Sendable {
        case fetch(TimelineBatch)
        case reschedule([TimelineJob])
        case collect([TimelineJob])
        case decideAgain([TimelineJob])

        /// Whether it sends a request for a patient lane. Such work runs at a lower priority.
        var isPatient: Bool {
            if case .fetch(let batch) = self { !batch.lane.isUrgent } else { false }
        }
    }

    /// Delay of a list whose kind is not in the directory yet.
    private static let unknownKindDelay = Duration.seconds(5)

    let context: WorkerContext
    let directory: DirectoryCache
    let closer: WorkListCloser
    let isStopping = Atomic(false)
    /// Whether nothing was under way at the stop.
    let hasDrained = Atomic(false)
    // Both are bounded by the timelines that may be in flight.
    let works: AsyncStream<Work>
    let patientWorks: AsyncStream<Work>
    private let starts: AsyncStream<Work>.Continuation
    private let patientStarts: AsyncStream<Work>.Continuation
    private let queue = FetchQueue()
    private let writer: TimelineWriter

    init(context: WorkerContext, directory: DirectoryCache) {
        self.context = context
        self.directory = directory
        closer = WorkListCloser(context: context, directory: directory)
        writer = TimelineWriter(context: context)
        (works, starts) = AsyncStream.makeStream()
        (patientWorks, patientStarts) = AsyncStream.makeStream()
    }

    // MARK: Decide

    /// Takes claimed lists, and decides about their timelines.
    func enter(_ claim: Claim, _ known: KindDirectory, startedAt: Duration, leaseEnds: Duration) {
        var claims: [(claim: ListClaim, timelines: [ClaimedTimeline])] = []
        for list in claim.lists {
            guard let kind = known.kinds[list.kindID], let app = known.apps[kind.app], app.id == kind.appID else {
                closer.append([HeldList(list, leaseEnds: leaseEnds, returnDelay: Self.unknownKindDelay)])
                continue
            }
            let claim = ListClaim(
                list, app: app, kind: kind, token: claim.token, startedAt: startedAt, leaseEnds: leaseEnds)
            claims.append((claim: claim, timelines: list.timelines))
        }
        let (ready, closed) = context.leases.enter(claims)
        closer.append(closed)
        decide(ready)
    }

    private func decide(_ jobs: consuming [TimelineJob]) {
        let decisions = Decisions(jobs)
        if !decisions.reschedules.isEmpty { start(.reschedule(decisions.reschedules)) }
        if !decisions.orphans.isEmpty { start(.collect(decisions.orphans)) }
        for provider in queue.append(decisions.fetches) { startRequests(of: provider) }
        guard !decisions.unreadable.isEmpty else { return }
        context.metrics.unreadableTimelines.increment(by: decisions.unreadable.count)
        end(decisions.unreadable)
    }

    /// Reads timelines again that were in flight through another list, and decides anew.
    private func decideAgain(_ jobs: [TimelineJob]) async throws {
        let startedAt = context.clock.elapsed
        var pipeline = PostgresPipeline()
        let rows = pipeline.append(.readTimelinesAgain(jobs.map(\.timeline.row)))
        // Taken after the reading, so that the token is above the read revisions.
        let token = pipeline.append(.nextToken())
        let results = try await context.pool.run(pipeline)
        let found = Dictionary(results.rows(rows).map { ($0.row, $0) }, uniquingKeysWith: { first, _ in first })
        let known = try await directory.directory(maximumAge: context.configuration.directoryAge)
        var superseded: [TimelineJob] = []
        var current: [TimelineJob] = []
        for job in jobs {
            guard let row = found[job.timeline.row], job.claim.list.standsFor(row) else {
                superseded.append(job)
                continue
            }
            let claim = ListClaim(
                job.claim.list, app: job.claim.app, kind: known.kinds[row.kindID] ?? job.claim.kind,
                token: results.rows(token).first ?? 0, startedAt: startedAt, leaseEnds: job.claim.leaseEnds)
            current.append(TimelineJob(row, of: claim))
        }
        end(superseded)
        decide(current)
    }

    // MARK: Running

    private func start(_ work: Work) {
        (work.isPatient ? patientStarts : starts).yield(work)
    }

    func run(_ work: Work) async {
        switch work {
        case .fetch(let batch): await run(batch)
        case .reschedule(var jobs):
            do {
                try await writer.reschedule(jobs)
            } catch {
                giveUp(&jobs, error)
            }
            end(jobs)
        case .collect(var jobs):
            endLost(&jobs)
            do {
                try await context.collect(&jobs)
            } catch {
                giveUp(&jobs, error, mayBeStored: true)
            }
            end(jobs)
        case .decideAgain(var jobs):
            do {
                try await decideAgain(jobs)
            } catch {
                giveUp(&jobs, error)
                end(jobs)
            }
        }
        context.output.endProbe()
    }

    /// Starts as many requests to a provider as there are slots for.
    private func startRequests(of provider: ProviderKey) {
        let configuration = context.configuration
        let limit = context.protection.limit(of: provider)
        let size = context.protection.sizeLimit(of: provider)
        while true {
            let batch = queue.next(provider, sizeLimit: size) { lane, isFull in
                let slots = isFull ? limit : min(limit, max(2, configuration.providerConcurrency / 4))
                return context.slots.begin(provider, lane, limit: slots)
            }
            guard let batch else { return }
            start(.fetch(batch))
        }
    }

    /// Frees the slot of a request that has ended, for those that wait for it.
    func freeSlot(of provider: ProviderKey, _ lane: ReloadLane) {
        context.slots.end(provider, lane)
        startRequests(of: provider)
        context.leases.roomFreed()
    }

    /// Fetches, stores and publishes the timelines of a batch, and ends their work.
    private func run(_ batch: TimelineBatch) async {
        var batch = batch
        let lane = batch.lane
        endLost(&batch.jobs)
        var postponed: [TimelineJob] = []
        if !batch.jobs.isEmpty {
            batch.traces = await context.traces.traces(of: batch.jobs, at: context.clock.elapsed)
            await context.takeSnapshots(of: batch)
            do {
                try await context.fetch(&batch, postponed: &postponed)
            } catch {
                giveUp(&batch.jobs, error)
            }
        }
        freeSlot(of: batch.provider, lane)
        end(postponed + batch.jobs.extract { $0.returnDelay != nil })
        endLost(&batch.jobs)
        if batch.jobs.contains(where: { $0.answer != nil }) {
            do {
                try await writer.store(&batch.jobs)
                endLost(&batch.jobs)
                await context.publish(&batch)
                let now = context.clock.elapsed
                context.claimSize.recordEnd(begun: batch.startedAt, isInTime: now < batch.leaseEnds, at: now)
            } catch {
                giveUp(&batch.jobs, error, mayBeStored: true) { $0.answer != nil }
            }
        }
        do {
            try await writer.recordFailures(of: &batch)
        } catch {
            giveUp(&batch.jobs, error) { $0.failure != nil }
        }
        end(batch.jobs)
    }

    // MARK: Ending

    /// Ends the work on timelines: closes lists without further ones, and decides rows again for which lists waited.
    private func end(_ jobs: [TimelineJob]) {
        let (closed, waiting) = context.leases.end(jobs)
        closer.append(closed)
        if !waiting.isEmpty { start(.decideAgain(waiting)) }
    }

    /// Ends the work on timelines whose claims are of lost history of the database, without effect.
    private func endLost(_ jobs: inout [TimelineJob]) {
        end(context.leases.removeLost(from: &jobs))
    }

    /// Has the lists of timelines given back: the database fails, or the worker stops.
    ///
    /// - Parameter mayBeStored: whether timelines may be stored or published, so that the next holder has to compare.
    private func giveUp(
        _ jobs: inout [TimelineJob], _ error: any Error, mayBeStored: Bool = false,
        where matches: (TimelineJob) -> Bool = { _ in true }
    ) {
        let isStopping = Task.isCancelled
        var count = 0
        for index in jobs.indices where matches(jobs[index]) {
            count += 1
            jobs[index].mayBeStored = mayBeStored
            jobs[index].returnDelay = isStopping ? .zero : context.configuration.publishRetryDelay
        }
        if !isStopping {
            context.logger.error("timelines are given up", metadata: ["count": "\(count)", "error": "\(error)"])
        }
    }

    /// Makes ``works``, ``patientWorks`` and the closer end once everything is done.
    func finish() {
        starts.finish()
        patientStarts.finish()
        closer.finish()
    }
}

extension LeasedList {
    /// Whether the list is the present appointment of a row.
    fileprivate func standsFor(_ timeline: ClaimedTimeline) -> Bool {
        if let generation {
            return timeline.state.generation < generation && generation > timeline.kind.cancelled
        }
        return timeline.listedAt == dueAt
    }
}
