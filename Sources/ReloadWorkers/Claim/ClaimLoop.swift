import KafkaClient
import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Claims due timelines and starts their batches, for as long as there is room.
///
/// It looks when it is told that there may be work, when room has come free for work that it had left behind, and at an
/// interval in case nobody told it.
struct ClaimLoop {
    /// What to do after a turn.
    enum Next: Equatable {
        /// More is due and there is room: look again at once.
        case again
        /// Nothing more to do until there is work, or until the time is over.
        case wait(atMost: Duration)
        /// Work is left behind until there is room for it.
        case waitForRoom(atMost: Duration)
    }

    /// Due timelines of a kind and lane that are counted one by one: counting all of a backlog costs more than claiming
    /// some of it.
    private static let countedWork = 25

    /// Least time between two looks at what is due in all lanes, while ingest says what it makes due.
    private static let lookSpacing = Duration.milliseconds(100)

    let context: WorkerContext
    let directory: DirectoryCache
    let direct: DirectClaims
    private var scheduler = ClaimScheduler()
    private var pace: ClaimPace
    private var watermarks = ClaimWatermarks()
    private var failures = 0
    /// When the database was asked last how much is due.
    private var lastLook: Duration?
    /// What the latest look at everything that is due has left behind.
    private(set) var leftBehind = LeftBehind.unknown

    /// A batch to be run.
    enum Work: Sendable {
        case reload(ReloadBatch)
        case collection(CollectionBatch)
        case deferral(DeferralBatch)
    }

    init(context: WorkerContext, directory: DirectoryCache, direct: DirectClaims = DirectClaims()) {
        self.context = context
        self.directory = directory
        self.direct = direct
        pace = ClaimPace(spacing: context.configuration.claimSpacing)
    }

    /// Claims until `isStopping`, and hands each batch to `start`.
    ///
    /// - Throws: `CancellationError`; what no time can mend, such as a pool that is shut down.
    mutating func run(isStopping: () -> Bool, start: (Work) -> Void) async throws {
        while !isStopping() {
            try Task.checkCancellation()
            let mark = context.signal.mark(.timelines)
            let began = context.clock.elapsed
            pace.turnBegins()
            let next = try await turnOrBackOff(start)
            direct.note(leftBehind)
            switch next {
            case .again:
                continue
            case .waitForRoom(let limit):
                _ = try await wait(past: mark, atMost: limit, isStopping)
            case .wait(let limit):
                guard try await wait(past: mark, atMost: limit, isStopping) else { continue }
                try await gather(since: began, isStopping)
            }
        }
    }

    /// Under a trickle of events, lets a batch gather while others are under way; an idle worker has waited longer than that
    /// already. So batches are small while the worker has time for them, and grow by themselves with the load.
    private mutating func gather(since began: Duration, _ isStopping: () -> Bool) async throws {
        while !isStopping() {
            let mark = context.signal.mark(.timelines)
            if context.inFlight.isBelow(context.configuration.eagerBatches) { return }
            let now = context.clock.elapsed
            let next = pace.next(after: began, apps: context.signal.takeMarkedApps(), now: now)
            guard next > now else { return }
            _ = try await context.signal.wait(past: mark, timeout: next - now, clock: context.clock.clock)
        }
    }

    private func wait(
        past mark: WorkSignal.Mark, atMost limit: Duration, _ isStopping: () -> Bool
    ) async throws -> Bool {
        guard !isStopping() else { return false }
        return try await context.signal.wait(
            past: mark, timeout: WorkerClock.jittered(limit), clock: context.clock.clock)
    }

    private mutating func turnOrBackOff(_ start: (Work) -> Void) async throws -> Next {
        let began = context.clock.elapsed
        do {
            let next = try await turn(start)
            failures = 0
            context.statistics.count { $0.claimTrouble = nil }
            return next
        } catch let error as PostgresError {
            leftBehind = .unknown
            guard error.canPass else { throw error }
            context.statistics.count { counts in
                counts.databaseErrors += 1
                counts.claimTrouble = "\(error)"
            }
            if error.asksForLess { context.claimSize.ended(begun: began, isInTime: false, at: context.clock.elapsed) }
            failures += 1
            context.logger.error("cannot claim", metadata: ["error": "\(error)", "failures": "\(failures)"])
            try await context.clock.sleep(
                for: context.configuration.databaseBackoff.bound(attempt: failures))
            return .again
        }
    }

    /// Looks for due work once and claims what there is room for.
    mutating func turn(_ start: (Work) -> Void) async throws -> Next {
        let configuration = context.configuration
        let hint = context.signal.takeMarked()
        var (capacity, ended) = context.inFlight.capacity(configuration)
        let held = max(0, configuration.maximumTimelinesInFlight - capacity.timelines)
        let size = context.claimSize
        capacity.timelines = min(
            size.share(of: configuration.claimBatch), size.share(of: configuration.maximumTimelinesInFlight) - held)
        var isProbe = false
        switch context.output.allowance() {
        case .everything:
            break
        case .probe(let timelines):
            isProbe = true
            capacity.timelines = min(capacity.timelines, timelines)
        case .nothing(let time):
            leftBehind = .unknown
            return heldBack(since: ended, atMost: min(time, configuration.pollInterval))
        }
        guard capacity.timelines > 0, capacity.requests > 0 else {
            leftBehind = .unknown
            return heldBack(since: ended, atMost: configuration.pollInterval)
        }
        // More than there is room for need not be counted.
        let known = try await directory.directory(maximumAge: configuration.directoryAge)
        let limit = min(capacity.timelines, capacity.requests * known.largestBatch)
        let now = context.clock.elapsed
        // However much ingest makes due, the other lanes are looked at as often as ever.
        let isFresh = lastLook.map { now - $0 < max(configuration.claimSpacing, Self.lookSpacing) } ?? false
        let isHinted = hint.map { !$0.isEmpty && $0.count <= Self.maximumHints && isFresh && !isProbe } ?? false
        if !isHinted { lastLook = now }
        let isPartial = watermarks.isPartial(at: now)
        let due =
            isHinted
            ? hintedWork(hint ?? [], limit: limit) : try await look(known, limit: limit, isPartial: isPartial)
        guard !due.isEmpty else {
            leftBehind = LeftBehind()
            return .wait(atMost: configuration.pollInterval)
        }
        let kinds = try await complete(known, for: due)
        let targets = context.protection.permitted(
            kinds.claimTargets(of: Set(due.lazy.map(\.kindID))), due: due.lazy.map(\.kindID), &capacity.allowances,
            at: context.clock.elapsed)
        var plan = scheduler.plan(due: due, targets: targets, capacity: capacity)
        if isPartial {
            for index in plan.wishes.indices {
                let wish = plan.wishes[index]
                plan.wishes[index].since = watermarks.since(kindID: wish.kindID, lane: wish.lane)
            }
        }
        if isProbe, !plan.wishes.isEmpty { context.output.probeStarted() }
        let claimed = try await claim(plan.wishes, kinds, targets, start)
        if isProbe, claimed == 0 { context.output.probeEnded() }
        if isHinted {
            // What there is besides, or for want of room, only the database tells.
            let isAll = !plan.isHeldBack && claimed < Self.hintedTimelines && claimed < limit
            return isAll ? .wait(atMost: configuration.pollInterval) : .again
        }
        let isCounted = due.allSatisfy { $0.count < limit || targets[$0.kindID] == nil }
        leftBehind = isProbe ? .unknown : LeftBehind(due: due, targets: targets, plan: plan)
        if plan.isFull, !isProbe { return claimed > 0 ? .again : .wait(atMost: configuration.pollInterval) }
        guard plan.isHeldBack || isProbe || !isCounted else { return .wait(atMost: configuration.pollInterval) }
        let next = heldBack(since: ended, atMost: configuration.pollInterval)
        // What woke it was no room: do not ask the database for every event that comes in meanwhile.
        if claimed == 0, case .waitForRoom(let limit) = next { return .wait(atMost: limit) }
        return next
    }

    /// What is due: all of it, or from the watermarks on.
    private mutating func look(
        _ known: KindDirectory, limit: Int, isPartial: Bool
    ) async throws -> [DueWork.Row] {
        // Counted as far as that is cheap: where there is more, a claim takes what it finds.
        let counted = min(limit, Self.countedWork)
        func estimated(_ rows: [DueWork.Row]) -> [DueWork.Row] {
            rows.map {
                $0.count < counted
                    ? $0 : DueWork.Row(kindID: $0.kindID, lane: $0.lane, count: limit, waited: $0.waited)
            }
        }
        guard !isPartial else {
            return estimated(
                try await context.pool.due(since: watermarks.queues(of: known.kinds.keys), limit: counted))
        }
        let began = context.clock.elapsed
        let due = estimated(try await context.pool.query(DueWork(limit: counted)))
        let now = context.clock.elapsed
        watermarks.lookedForAll(took: now - began, at: now)
        return due
    }

    /// The most kinds and lanes, and timelines of each, that are claimed without looking first.
    private static let maximumHints = 8
    private static let hintedTimelines = 32

    /// What ingest has just made due in this process: claimed without asking first how much there is.
    private func hintedWork(_ hint: Set<LaneWork>, limit: Int) -> [DueWork.Row] {
        hint.map { DueWork.Row(kindID: $0.kindID, lane: $0.lane, count: min(limit, Self.hintedTimelines)) }
    }

    /// The directory, read anew when something is due of a kind that it does not have, or has as paused.
    private func complete(_ known: KindDirectory, for due: [DueWork.Row]) async throws -> KindDirectory {
        guard due.contains(where: { known.kinds[$0.kindID]?.isPaused ?? true }) else { return known }
        return try await directory.directory(maximumAge: context.configuration.pollInterval)
    }

    /// Claims and starts, what is urgent first and by itself; answers how many timelines were claimed.
    private mutating func claim(
        _ wishes: [ClaimWish], _ directory: KindDirectory, _ targets: [Int32: ClaimTarget],
        _ start: (Work) -> Void
    ) async throws -> Int {
        let leases = LeasePlan(configuration: context.configuration, longestPublish: context.output.longestPublish)
        let urgent = leases.grouped(wishes.filter(\.lane.isUrgent), kinds: directory.kinds)
        let patient = leases.grouped(wishes.filter { !$0.lane.isUrgent }, kinds: directory.kinds)
        var count = 0
        let began = context.clock.elapsed
        for (lease, wishes) in urgent + patient {
            // Counted from before the statement: the database's lease ends no sooner.
            let startedAt = context.clock.elapsed
            let leaseEnds = startedAt + lease
            let claimed = try await context.pool.claim(wishes, lease: lease)
            guard !claimed.isEmpty else { continue }
            count += claimed.count
            watermarks.claimed(claimed)
            context.inFlight.hold(claimed)
            for kindID in Set(claimed.lazy.filter(\.lane.isUrgent).map(\.kindID)) {
                if let kind = directory.kinds[kindID] { pace.claimed(kind.appID, at: began) }
            }
            context.statistics.count { counts in
                counts.claims += 1
                counts.claimed += claimed.count
            }
            if claimed.contains(where: { $0.lane == .bulk }) { context.sweepDemand.backlogShrank() }
            let plan = BatchPlan(
                claimed: claimed, directory: directory, targets: targets, startedAt: startedAt, leaseEnds: leaseEnds)
            // Left to their lease; by then the directory has them, or they are retired.
            context.inFlight.drop(plan.strays)
            for batch in plan.reloads {
                context.inFlight.begin(batch.provider, batch.lane)
                start(.reload(batch))
            }
            if let collection = plan.collection {
                context.inFlight.begin(nil)
                start(.collection(collection))
            }
            if let deferral = plan.deferral {
                context.inFlight.begin(nil)
                start(.deferral(deferral))
            }
        }
        return count
    }

    private func heldBack(since ended: UInt64, atMost limit: Duration) -> Next {
        context.inFlight.holdBack(since: ended) ? .waitForRoom(atMost: limit) : .again
    }
}

extension KindDirectory {
    /// The most timelines that any kind takes in a request; at least one.
    var largestBatch: Int {
        kinds.values.lazy.filter { !$0.isRetired }.map(\.definition.maxBatch).max() ?? 1
    }

    /// Of these kinds those whose timelines may be claimed: not what is paused, nor of an app that is not known.
    func claimTargets(of ids: Set<Int32>) -> [Int32: ClaimTarget] {
        var targets: [Int32: ClaimTarget] = Dictionary(minimumCapacity: ids.count)
        for id in ids {
            guard let kind = kinds[id], !kind.isPaused, apps[kind.app]?.id == kind.appID else { continue }
            targets[id] = ClaimTarget(kind)
        }
        return targets
    }
}

extension PostgresError {
    /// Whether time can mend it: anything but a wrong configuration, a database of another version, and the end.
    var canPass: Bool {
        switch kind {
        case .configuration, .misuse, .migration, .shutdown: false
        case .connection, .server, .poolTimeout, .encoding, .decoding: true
        case .cancelled: !Task.isCancelled
        }
    }
}
