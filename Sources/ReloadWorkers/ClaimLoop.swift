// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import Waiting
import WidgetModel
import WidgetStore

/// Claims ready lists and enters them into the pipeline while there is room. It looks for lists after a signal, when
/// room comes free for lists left behind, and at an interval.
struct ClaimLoop {
    /// Most counted lists of a kind and lane: counting all of a backlog costs more than claiming a part.
    private static let countedLists = 64

    let context: WorkerContext
    let directory: DirectoryCache
    let pipeline: Pipeline
    private var scheduler = ClaimScheduler()
    private var watermarks = ClaimWatermarks()
    private var failures = 0
    /// Beginning of the latest look, if it left lists behind for want of room.
    private var fullSince: Duration?

    init(context: WorkerContext, directory: DirectoryCache, pipeline: Pipeline) {
        (self.context, self.directory, self.pipeline) = (context, directory, pipeline)
    }

    /// Claims until `isStopping`.
    ///
    /// - Throws: `CancellationError`; an error that is not transient, such as a pool that is shut down.
    mutating func run(isStopping: () -> Bool) async throws {
        while !isStopping() {
            try Task.checkCancellation()
            try await rest()
            let version = context.signals.timelines.version
            guard let limit = try await turnOrBackOff(), !isStopping() else { continue }
            _ = try await context.signals.timelines.wait(
                past: version, timeout: limit.jittered, clock: context.clock.clock)
        }
    }

    /// Waits until the least time between two looks has passed: room comes free for a few timelines at a time.
    private func rest() async throws {
        guard let fullSince else { return }
        let rest = context.configuration.claimSpacing - (context.clock.elapsed - fullSince)
        if rest > .zero { try await context.clock.sleep(for: rest) }
    }

    private mutating func turnOrBackOff() async throws -> Duration? {
        let began = context.clock.elapsed
        do {
            let next = try await turn()
            failures = 0
            context.condition.recordClaim()
            return next
        } catch let error as PostgresError {
            guard error.canPass else { throw error }
            context.metrics.databaseErrors.increment()
            context.condition.recordClaim(problem: "\(error)")
            if error.asksForLess {
                context.claimSize.recordEnd(begun: began, isInTime: false, at: context.clock.elapsed)
            }
            failures += 1
            context.logger.error("cannot claim", metadata: ["error": "\(error)", "failures": "\(failures)"])
            try await context.clock.sleep(for: context.configuration.databaseBackoff.bound(attempt: failures))
            return nil
        }
    }

    /// Looks for ready lists once and claims those that there is room for.
    ///
    /// - Returns: longest time to wait for work or room; nil: more is ready and there is room.
    mutating func turn() async throws -> Duration? {
        // Before the room is read, so that no later room is missed.
        context.leases.awaitRoom(true)
        let began = context.clock.elapsed
        let (next, isHeldBack) = try await look()
        fullSince = isHeldBack ? began : nil
        if !isHeldBack { context.leases.awaitRoom(false) }
        return next
    }

    /// Looks and claims. Returns the time to wait, and whether lists stay behind for want of room.
    private mutating func look() async throws -> (Duration?, isHeldBack: Bool) {
        let configuration = context.configuration
        let idle = configuration.pollInterval
        guard !context.precedence.holdsClaims(at: context.clock.elapsed) else { return (idle, false) }
        var timelines =
            context.claimSize.share(of: configuration.maximumTimelinesInFlight) - context.leases.held
            - pipeline.closer.waitingLists
        var isProbe = false
        switch context.output.allowance() {
        case .everything: break
        case .probe(let count):
            isProbe = true
            timelines = min(timelines, count)
        case .nothing(let time): return (min(time, idle), false)
        }
        guard timelines > 0 else { return (idle, true) }
        let known = try await directory.directory(maximumAge: configuration.directoryAge)
        let isPartial = watermarks.isPartial(at: context.clock.elapsed)
        let ready = try await readyLists(known, isPartial: isPartial)
        guard !ready.isEmpty else { return (idle, false) }
        let kinds = try await complete(known, for: ready)
        // A quarter of the room is for urgent lanes, except in a probe, which may find only patient ones.
        let urgentRoom = isProbe ? 0 : context.claimSize.share(of: configuration.maximumTimelinesInFlight) / 4
        let (targets, allowances) = context.protection.permitted(
            kinds.claimTargets(of: Set(ready.lazy.map(\.queue.kindID))), at: context.clock.elapsed)
        let capacity = ClaimCapacity(
            timelines: timelines, patientTimelines: max(0, timelines - urgentRoom),
            concurrency: configuration.concurrency, requestsPerProvider: configuration.providerConcurrency,
            inFlight: context.slots.all, allowances: allowances)
        let plan = scheduler.plan(due: ready, targets: targets, capacity: capacity)
        let requests = plan.requests.map { request in
            ClaimRequest(
                request.queue, lists: request.sizes.count, timelines: request.count,
                since: isPartial ? watermarks.since(request.queue) : .distantPast)
        }
        guard !requests.isEmpty else { return (idle, plan.isHeldBack || plan.isFull) }
        if isProbe { context.output.beginProbe() }
        let claimed = try await claim(requests, kinds)
        if isProbe, claimed == 0 { context.output.endProbe() }
        return (claimed > 0 && !isProbe ? nil : idle, true)
    }

    /// Kinds and lanes with ready lists, all or from the watermarks on.
    private mutating func readyLists(_ known: KindDirectory, isPartial: Bool) async throws -> [LaneTimelines] {
        let began = context.clock.elapsed
        let queues = known.kinds.keys.flatMap { kindID in
            ReloadLane.allCases.map { lane in
                let queue = KindLane(kindID: kindID, lane: lane)
                return ClaimRequest(queue, lists: 0, since: isPartial ? watermarks.since(queue) : .distantPast)
            }
        }
        let ready = try await context.pool.query(.readyLists(queues, limit: Self.countedLists))
        let now = context.clock.elapsed
        if !isPartial { watermarks.recordCompleteLook(took: now - began, at: now) }
        return ready
    }

    /// The directory, refreshed if a kind with ready lists is unknown or paused in it.
    private func complete(_ known: KindDirectory, for ready: [LaneTimelines]) async throws -> KindDirectory {
        guard ready.contains(where: { known.kinds[$0.queue.kindID]?.isPaused ?? true }) else { return known }
        return try await directory.directory(maximumAge: context.configuration.pollInterval)
    }

    /// Claims and enters lists, urgent lanes first in a statement of their own. Returns the number of lists.
    private mutating func claim(_ requests: [ClaimRequest], _ known: KindDirectory) async throws -> Int {
        func grouped(_ requests: [ClaimRequest]) -> [(lease: Duration, requests: [ClaimRequest])] {
            context.configuration.grouped(requests, kinds: known.kinds, publishing: context.output.longestPublish)
        }
        var lists = 0
        for (lease, requests) in grouped(requests.filter(\.queue.lane.isUrgent))
            + grouped(requests.filter { !$0.queue.lane.isUrgent })
        {
            // Taken before the statement, so that the database's lease does not end earlier.
            let startedAt = context.clock.elapsed
            let rows = try await context.pool.query(.claimLists(requests, lease: lease))
            watermarks.recordClaim(rows)
            guard let claim = Claim(rows) else { continue }
            lists += claim.lists.count
            context.metrics.claims.increment()
            context.metrics.claimed.increment(by: claim.count)
            pipeline.enter(claim, known, startedAt: startedAt, leaseEnds: startedAt + lease)
        }
        if requests.contains(where: { $0.queue.lane == .bulk }) { context.signals.sweeps.signal() }
        return lists
    }
}

extension KindDirectory {
    /// Targets for the kinds that may be claimed: not paused, and of a known app.
    func claimTargets(of ids: Set<Int32>) -> [Int32: ClaimTarget] {
        var targets: [Int32: ClaimTarget] = Dictionary(minimumCapacity: ids.count)
        for id in ids {
            guard let kind = kinds[id], !kind.isPaused, apps[kind.app]?.id == kind.appID else { continue }
            targets[id] = ClaimTarget(kind)
        }
        return targets
    }
}
