import WidgetModel
import WidgetStore

/// Free capacity.
struct ClaimCapacity: Sendable {
    var timelines: Int
    /// Most timelines of patient lanes: urgent ones wait while they are claimed.
    var patientTimelines: Int
    /// Most concurrent requests, over all providers.
    var concurrency: Int
    /// Concurrent requests to a provider without a known limit. It gets further slots only if others leave them free.
    var requestsPerProvider: Int
    var inFlight: [ProviderKey: HeldSlots]
    /// Allowances of the known providers.
    var allowances: [ProviderKey: ProviderAllowance] = [:]

    /// Further requests to a provider. A provider with a grown limit takes at most half of the free slots, so that
    /// hanging providers do not hold the pool.
    func room(of limit: Int, _ lane: ReloadLane, _ own: HeldSlots, all: HeldSlots) -> Int {
        let shared = (concurrency - all.all - own.all) / 2
        return min(own.room(lane, of: limit), max(requestsPerProvider - own.all, shared))
    }
}

/// Number of timelines of one kind and lane: ready ones, or those to claim.
struct LaneTimelines: Sendable, Hashable {
    let kindID: Int32
    let lane: ReloadLane
    var count: Int
    /// Numbers of timelines in the lists, the oldest first; a list is leased as a whole. Empty if timelines can be
    /// leased one by one.
    var sizes: [Int] = []
}

struct ClaimPlan: Sendable, Equatable {
    /// At most one for each kind and lane.
    var wishes: [LaneTimelines] = []
    /// Due work stays behind because its provider, or the worker, is busy.
    var isHeldBack = false
    /// Due work stays behind because this claim is full.
    var isFull = false
}

/// Shares room between lanes by weight, between a lane's apps and an app's kinds by deficit round-robin. Claims only
/// work for which the provider has free slots: a slow provider's work stays due for any process. Patient lanes leave
/// slots for urgent ones and do not share their requests, so that a single reload waits neither for a slot nor for a
/// hundred others.
///
/// Pure: no I/O, no clock. Its state between claims is the order of turns.
struct ClaimScheduler: Sendable {
    private struct LaneApp: Hashable {
        let lane: ReloadLane
        let app: Int32
    }

    private var lanes = LaneShares()
    private var apps: [ReloadLane: DeficitRoundRobin<Int32>] = [:]
    private var kinds: [LaneApp: DeficitRoundRobin<Int32>] = [:]

    /// Timelines of an app in one turn: a large batch.
    private static let appQuantum = 100
    /// Timelines granted at once, unless they are in one list: less than a batch, so that lanes share even a single
    /// request.
    private static let grain = 25

    /// - Parameters:
    ///   - due: due timelines by kind and lane.
    ///   - targets: kinds that may be claimed.
    mutating func plan(due: [LaneTimelines], targets: [Int32: ClaimTarget], capacity: ClaimCapacity) -> ClaimPlan {
        var room = ClaimRoom(due: due, targets: targets, capacity: capacity)
        begin(room.eligible)
        var granted: [LaneTimelines] = []
        var index: [ClaimRoom.Queue: Int] = [:]
        while let queue = next(among: room.eligible, room) {
            let taken = room.take(from: queue, atMost: Self.grain)
            charge(queue, app: room.target(of: queue).appID, taken.count)
            if let at = index[queue] {
                granted[at].count += taken.count
                granted[at].sizes += taken.sizes
            } else {
                index[queue] = granted.count
                granted.append(taken)
            }
        }
        return ClaimPlan(wishes: granted, isHeldBack: room.isHeldBack, isFull: room.isFull)
    }

    private mutating func begin(_ eligible: [ClaimRoom.Queue: ClaimTarget]) {
        lanes.begin(with: Set(eligible.keys.map(\.lane)))
        let appsByLane = Dictionary(grouping: eligible, by: \.key.lane).mapValues { Set($0.map(\.value.appID)) }
        apps = apps.filter { appsByLane[$0.key] != nil }
        for (lane, keys) in appsByLane { apps[lane, default: DeficitRoundRobin()].keep(only: keys) }
        let kindsByApp = Dictionary(grouping: eligible) { LaneApp(lane: $0.key.lane, app: $0.value.appID) }
            .mapValues { Set($0.map(\.key.kindID)) }
        kinds = kinds.filter { kindsByApp[$0.key] != nil }
        for (app, keys) in kindsByApp { kinds[app, default: DeficitRoundRobin()].keep(only: keys) }
    }

    private mutating func next(among eligible: [ClaimRoom.Queue: ClaimTarget], _ room: ClaimRoom) -> ClaimRoom.Queue? {
        guard let lane = lanes.next(among: Set(eligible.keys.map(\.lane))) else { return nil }
        let inLane = eligible.filter { $0.key.lane == lane }
        let candidates = Set(inLane.map(\.value.appID))
        guard
            let app = apps[lane, default: DeficitRoundRobin()].next(
                among: candidates, quantum: { _ in Self.appQuantum })
        else { return nil }
        let kindIDs = Set(inLane.filter { $0.value.appID == app }.map(\.key.kindID))
        let kind = kinds[LaneApp(lane: lane, app: app), default: DeficitRoundRobin()]
            .next(among: kindIDs) { room.target(of: ClaimRoom.Queue(kindID: $0, lane: lane)).maxBatch }
        return kind.map { ClaimRoom.Queue(kindID: $0, lane: lane) }
    }

    private mutating func charge(_ queue: ClaimRoom.Queue, app: Int32, _ count: Int) {
        lanes.charge(queue.lane, count)
        apps[queue.lane, default: DeficitRoundRobin()].charge(app, count)
        kinds[LaneApp(lane: queue.lane, app: app), default: DeficitRoundRobin()].charge(queue.kindID, count)
    }
}
