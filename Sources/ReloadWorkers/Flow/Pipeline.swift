import Logging
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// The way of a timeline through the workers: decide → fetch → store → publish → end. Claims and the hand-over enter it
/// at *decide*; each step works on groups.
final class Pipeline: Sendable {
    /// Work that runs as a task of its own.
    enum Work: Sendable {
        case fetch(FetchBatch)
        case settle([TimelineSettlement], [Int32: RegisteredKind], until: Duration)
        case collect([CollectItem], until: Duration)
        case decideAgain([WaitingTimeline])

        /// Whether it sends a request for a patient lane. Such work runs at a lower priority.
        var isPatient: Bool {
            if case .fetch(let batch) = self { !batch.lane.isUrgent } else { false }
        }
    }

    let context: WorkerContext
    let directory: DirectoryCache
    let closer: WorkListCloser
    // Both are bounded by the timelines that may be in flight.
    let works: AsyncStream<Work>
    let patientWorks: AsyncStream<Work>
    private let starts: AsyncStream<Work>.Continuation
    private let patientStarts: AsyncStream<Work>.Continuation
    private let queue = FetchQueue()
    private let storer: Storer
    private let settler: Settler

    init(context: WorkerContext, directory: DirectoryCache) {
        self.context = context
        self.directory = directory
        closer = WorkListCloser(context: context, directory: directory)
        storer = Storer(context: context)
        settler = Settler(context: context)
        (works, starts) = AsyncStream.makeStream()
        (patientWorks, patientStarts) = AsyncStream.makeStream()
    }

    // MARK: Decide

    /// Takes claimed lists.
    func enter(_ claim: Claim, _ known: KindDirectory, startedAt: Duration, leaseEnds: Duration) {
        let (ready, closed) = context.leases.enter(claim.lists, leaseEnds: leaseEnds)
        closer.append(closed)
        decide(ready, known, token: claim.token, startedAt: startedAt, leaseEnds: leaseEnds)
    }

    private func decide(
        _ lists: [LeasedList], _ known: KindDirectory, token: Int64, startedAt: Duration, leaseEnds: Duration
    ) {
        let decisions = Decider(directory: known)
            .decide(lists, token: token, startedAt: startedAt, leaseEnds: leaseEnds)
        if !decisions.settlements.isEmpty {
            start(.settle(decisions.settlements, known.kinds, until: leaseEnds))
        }
        if !decisions.collections.isEmpty { start(.collect(decisions.collections, until: leaseEnds)) }
        for provider in queue.append(decisions.fetches, known) { startRequests(of: provider) }
        if decisions.unreadable > 0 { context.statistics.count { $0.unreadable += decisions.unreadable } }
        settle(decisions.settled)
    }

    /// Reads timelines again that were in flight through another list, and decides anew.
    private func decideAgain(_ waiting: [WaitingTimeline]) async {
        let startedAt = context.clock.elapsed
        do {
            var pipeline = PostgresPipeline()
            let rows = pipeline.append(.readTimelinesAgain(waiting.map(\.row)))
            let token = pipeline.append(.nextToken())
            // Taken after the reading, so that the token is above the read revisions.
            let results = try await context.pool.run(pipeline)
            let found = Dictionary(results.rows(rows).map { ($0.row, $0) }, uniquingKeysWith: { first, _ in first })
            let known = try await directory.directory(maximumAge: context.configuration.directoryAge)
            for waiting in waiting {
                guard let row = found[waiting.row], waiting.list.standsFor(row) else {
                    settle([SettledTimeline(list: waiting.list.hold, row: waiting.row)])
                    continue
                }
                var list = waiting.list
                list.timelines = [row]
                decide(
                    [list], known, token: results.rows(token).first ?? 0, startedAt: startedAt,
                    leaseEnds: waiting.leaseEnds)
            }
        } catch {
            giveUp(waiting.map { SettledTimeline(list: $0.list.hold, row: $0.row) }, error)
        }
    }

    // MARK: Running

    private func start(_ work: Work) {
        (work.isPatient ? patientStarts : starts).yield(work)
    }

    func run(_ work: Work) async {
        switch work {
        case .fetch(let batch): await run(batch)
        case .settle(let settlements, let kinds, let deadline):
            do {
                try await settler.settle(settlements, kinds, until: deadline)
                settle(settlements.map { SettledTimeline(list: $0.list.hold, row: $0.timeline.row) })
            } catch {
                giveUp(settlements.map { SettledTimeline(list: $0.list.hold, row: $0.timeline.row) }, error)
            }
        case .collect(let items, let deadline):
            let holds = context.leases.held(among: items.lazy.map(\.list.hold))
            let lost = items.filter { !holds.contains($0.list.hold) }
            settle(lost.map(\.settled))
            let items = lost.isEmpty ? items : items.filter { holds.contains($0.list.hold) }
            do {
                settle(try await Collector(context: context).collect(items, until: deadline))
            } catch {
                giveUp(items.map(\.settled), error, mayBeStored: true)
            }
        case .decideAgain(let waiting): await decideAgain(waiting)
        }
        context.output.probeEnded()
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

    private func run(_ batch: FetchBatch) async {
        let lane = batch.lane
        let items = held(batch.items) { $0 }
        guard !items.isEmpty else { return endRequest(batch.provider, lane) }
        var batch = items.count < batch.items.count ? batch.keeping(items) : batch
        batch.traces = await context.traces.traces(of: batch.items.map(\.timeline), at: context.clock.elapsed)
        await SnapshotRunner(context: context).takeSnapshots(of: batch)
        let outcome: FetchOutcome
        do {
            outcome = try await FetchRunner(context: context).fetch(batch)
        } catch {
            endRequest(batch.provider, lane)
            return giveUp(batch.items.map(\.settled), error)
        }
        endRequest(batch.provider, lane)
        await finish(outcome, of: batch)
    }

    private func endRequest(_ provider: ProviderKey, _ lane: ReloadLane) {
        context.slots.end(provider, lane)
        startRequests(of: provider)
        context.leases.roomFreed()
    }

    private func finish(_ outcome: FetchOutcome, of batch: FetchBatch) async {
        count(outcome, of: batch)
        settle(
            outcome.postponed.map { item, delay, _ in
                var settled = item.settled
                settled.returnDelay = delay
                return settled
            })
        var failed = outcome.failed
        let fetched = held(outcome.fetched, \.item)
        do {
            let (stored, refused) = try await storer.store(fetched)
            failed += refused
            told(stored)
            var discarded: [FetchItem] = []
            if stored.count + refused.count < fetched.count {
                let known = Set(stored.lazy.map(\.fetched.item.timeline.row) + refused.lazy.map(\.item.timeline.row))
                discarded = fetched.map(\.item).filter { !known.contains($0.timeline.row) }
                // Their lists may be the rows' appointments: the revision of a tombstone comes without one.
                try await settler.settle(
                    discarded.map { TimelineSettlement(timeline: $0.timeline, list: $0.list, outcome: .nothing) }, [:],
                    until: batch.leaseEnds)
            }
            let settled = await Publisher(context: context).publish(
                held(stored, \.fetched.item), traces: batch.traces)
            settle(settled + discarded.map(\.settled))
            context.claimSize.ended(
                begun: batch.startedAt, isInTime: context.clock.elapsed < batch.leaseEnds, at: context.clock.elapsed)
        } catch {
            giveUp(fetched.map(\.item.settled), error, mayBeStored: true)
        }
        guard !failed.isEmpty else { return }
        do {
            try await settler.fail(failed, of: batch)
            settle(failed.map(\.item.settled))
        } catch {
            giveUp(failed.map(\.item.settled), error)
        }
    }

    // MARK: Settling

    /// The elements whose claims are held. The others' timelines are settled, without effect: their claims are of lost
    /// history of the database.
    private func held<Element>(_ elements: [Element], _ item: (Element) -> FetchItem) -> [Element] {
        let holds = context.leases.held(among: elements.map { item($0).list.hold })
        let lost = elements.filter { !holds.contains(item($0).list.hold) }
        guard !lost.isEmpty else { return elements }
        settle(lost.map { item($0).settled })
        return elements.filter { holds.contains(item($0).list.hold) }
    }

    /// Settles timelines: ends the lists that close, and decides rows again for which lists waited.
    private func settle(_ settled: [SettledTimeline]) {
        let (closed, waiting) = context.leases.settle(settled)
        closer.append(closed)
        if !waiting.isEmpty { start(.decideAgain(waiting)) }
    }

    /// Gives the lists of timelines back: the database fails, or the worker stops.
    ///
    /// - Parameter mayBeStored: whether timelines may be stored or published, so that the next holder has to compare.
    private func giveUp(_ settled: [SettledTimeline], _ error: any Error, mayBeStored: Bool = false) {
        let isStopping = Task.isCancelled
        if !isStopping {
            context.logger.error(
                "timelines are given up", metadata: ["count": "\(settled.count)", "error": "\(error)"])
        }
        context.statistics.count { $0.released += settled.count }
        settle(
            settled.map { timeline in
                var timeline = timeline
                timeline.isStored = mayBeStored
                timeline.returnDelay = isStopping ? .zero : context.configuration.publishRetryDelay
                return timeline
            })
    }

    private func count(_ outcome: FetchOutcome, of batch: FetchBatch) {
        let late = outcome.postponed.count { $0.reason == .lease }
        context.statistics.count { counts in
            counts.fetched += outcome.fetched.count
            counts.foreign += outcome.foreign
            counts.released += outcome.postponed.count
            counts.restingTimelines += outcome.postponed.count { $0.reason == .resting }
            counts.lateTimelines += late
        }
        for postponed in outcome.postponed {
            context.statistics.count(kind: postponed.item.kind.id) { $0.count(.released) }
        }
        if late > 0 {
            context.logger.notice(
                "timelines waited too long for a request to their provider and are given back",
                metadata: ["app": "\(batch.app.name)", "provider": "\(batch.provider.url)", "count": "\(late)"])
        }
        for fetched in outcome.fetched where !fetched.parsed.lints.isEmpty {
            context.statistics.count(kind: fetched.item.kind.id) { $0.count(fetched.parsed.lints) }
        }
        guard outcome.foreign > 0 else { return }
        context.logger.warning(
            "a provider answered for timelines that were not asked for",
            metadata: ["app": "\(batch.app.name)", "count": "\(outcome.foreign)"])
    }

    private func told(_ stored: [StoredTimeline]) {
        guard !stored.isEmpty else { return }
        let changed = stored.count(where: \.isChanged)
        context.statistics.count { counts in
            counts.stored += changed
            counts.unchanged += stored.count - changed
            counts.completed += stored.count
        }
        context.statistics.count(stored: stored)
        context.meter.stored(stored, at: context.clock.elapsed)
        context.decisions?.record(stored.map { TimelineDecidedEvent($0) })
        if let onStored = context.onStored {
            for stored in stored where stored.isChanged {
                onStored(stored.fetched.item.timeline.id, stored.fetched.item.timeline.cause)
            }
        }
        // Requested again during the fetch: no need to wait for the poll.
        if stored.contains(where: \.row.isDue) { context.signal.signal(.timelines) }
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
