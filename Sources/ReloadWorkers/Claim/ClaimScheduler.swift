// SPDX-License-Identifier: Apache-2.0

import WidgetModel
import WidgetStore

/// Shares room between lanes by weight, between a lane's apps and an app's kinds by deficit round-robin. Claims only
/// work for which the provider has free slots: a slow provider's work stays due for any process. Patient lanes leave
/// slots for urgent ones and do not share their requests, so that a single reload waits neither for a slot nor for a
/// hundred others.
///
/// Pure: no I/O, no clock. Its state between claims is the order of turns.
struct ClaimScheduler: Sendable {
    private var lanes = LaneShares()
    private var apps: [ReloadLane: DeficitRoundRobin<Int32>] = [:]
    /// By lane and app.
    private var kinds: [ReloadLane: [Int32: DeficitRoundRobin<Int32>]] = [:]

    /// Timelines of an app in one turn: a large batch.
    private static let appQuantum = 100
    /// Timelines granted at once, unless they are in one list: less than a batch, so that lanes share even a single
    /// request.
    private static let grain = 25

    /// - Parameters:
    ///   - due: due timelines by kind and lane.
    ///   - targets: kinds that may be claimed.
    /// - Returns: requests, at most one for each kind and lane; whether due work stays behind because its provider or
    ///   the worker is busy; and whether some stays behind because this claim is full.
    mutating func plan(
        due: [LaneTimelines], targets: [Int32: ClaimTarget], capacity: ClaimCapacity
    ) -> (requests: [LaneTimelines], isHeldBack: Bool, isFull: Bool) {
        var room = ClaimRoom(due: due, targets: targets, capacity: capacity)
        begin(room.eligible)
        var granted: [LaneTimelines] = []
        var index: [KindLane: Int] = [:]
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
        return (granted, room.isHeldBack, room.isFull)
    }

    private mutating func begin(_ eligible: [KindLane: ClaimTarget]) {
        lanes.begin(with: Set(eligible.keys.map(\.lane)))
        let appsByLane = Dictionary(grouping: eligible, by: \.key.lane).mapValues { Set($0.map(\.value.appID)) }
        apps = apps.filter { appsByLane[$0.key] != nil }
        for (lane, keys) in appsByLane { apps[lane, default: DeficitRoundRobin()].keep(only: keys) }
        var kindsByApp: [ReloadLane: [Int32: Set<Int32>]] = [:]
        for (queue, target) in eligible {
            kindsByApp[queue.lane, default: [:]][target.appID, default: []].insert(queue.kindID)
        }
        let turns = kinds
        kinds = kindsByApp.reduce(into: [:]) { kinds, lane in
            for (app, keys) in lane.value {
                var turn = turns[lane.key]?[app] ?? DeficitRoundRobin()
                turn.keep(only: keys)
                kinds[lane.key, default: [:]][app] = turn
            }
        }
    }

    private mutating func next(among eligible: [KindLane: ClaimTarget], _ room: ClaimRoom) -> KindLane? {
        guard let lane = lanes.next(among: Set(eligible.keys.map(\.lane))) else { return nil }
        let inLane = eligible.filter { $0.key.lane == lane }
        let candidates = Set(inLane.map(\.value.appID))
        guard
            let app = apps[lane, default: DeficitRoundRobin()].next(
                among: candidates, quantum: { _ in Self.appQuantum })
        else { return nil }
        let kindIDs = Set(inLane.filter { $0.value.appID == app }.map(\.key.kindID))
        let kind = kinds[lane, default: [:]][app, default: DeficitRoundRobin()]
            .next(among: kindIDs) { room.target(of: KindLane(kindID: $0, lane: lane)).maxBatch }
        return kind.map { KindLane(kindID: $0, lane: lane) }
    }

    private mutating func charge(_ queue: KindLane, app: Int32, _ count: Int) {
        lanes.charge(queue.lane, count)
        apps[queue.lane, default: DeficitRoundRobin()].charge(app, count)
        kinds[queue.lane, default: [:]][app, default: DeficitRoundRobin()].charge(queue.kindID, count)
    }
}

/// Due work and free capacity while a claim is planned.
struct ClaimRoom {
    /// Queues that share requests: the urgent lanes of a provider's kinds, and their patient ones.
    private struct Group: Hashable {
        let provider: ProviderKey
        let isUrgent: Bool
    }

    /// Numbers of further timelines, in all and of patient lanes.
    private var timelines: Int
    private var patientTimelines: Int
    private var held: HeldSlots
    private var heldOfProvider: [ProviderKey: HeldSlots]
    /// Further timelines of providers that are only probed.
    private var probes: [ProviderKey: Int]
    /// Free places in planned requests.
    private var openPlaces: [Group: Int] = [:]
    private var due: [KindLane: Int] = [:]
    /// Lists of the due work that are not taken yet.
    private var lists: [KindLane: ArraySlice<Int>] = [:]
    private let targets: [Int32: ClaimTarget]
    private let capacity: ClaimCapacity
    /// The queues with due work and room for it.
    private(set) var eligible: [KindLane: ClaimTarget] = [:]

    init(due rows: [LaneTimelines], targets: [Int32: ClaimTarget], capacity: ClaimCapacity) {
        timelines = capacity.timelines
        patientTimelines = min(capacity.timelines, capacity.patientTimelines)
        heldOfProvider = capacity.inFlight
        probes = capacity.allowances.compactMapValues(\.timelines)
        held = capacity.inFlight.values.reduce(HeldSlots(), +)
        self.targets = targets
        self.capacity = capacity
        for row in rows where row.count > 0 {
            guard targets[row.queue.kindID] != nil else { continue }
            due[row.queue, default: 0] += row.count
            if !row.sizes.isEmpty { lists[row.queue] = row.sizes[...] }
        }
        eligible = due.keys.reduce(into: [:]) { eligible, queue in
            if let target = targets[queue.kindID], places(for: queue, target) > 0 { eligible[queue] = target }
        }
    }

    /// Whether some of the due work has no free slot.
    var isHeldBack: Bool { due.keys.contains { seats(for: $0, target(of: $0)) == 0 } }

    /// Whether due work with free slots stays behind because the claim is full.
    var isFull: Bool { due.keys.contains { seats(for: $0, target(of: $0)) > 0 } }

    /// The target of a queue, which exists only for known kinds.
    func target(of queue: KindLane) -> ClaimTarget {
        guard let target = targets[queue.kindID] else {
            preconditionFailure("a queue is made only for a kind with a target")
        }
        return target
    }

    private func group(_ queue: KindLane, _ target: ClaimTarget) -> Group {
        Group(provider: target.provider, isUrgent: queue.lane.isUrgent)
    }

    private func places(for queue: KindLane, _ target: ClaimTarget) -> Int {
        min(queue.lane.isUrgent ? timelines : min(timelines, patientTimelines), seats(for: queue, target))
    }

    /// Places in planned and further requests.
    private func seats(for queue: KindLane, _ target: ClaimTarget) -> Int {
        let seats = openPlaces[group(queue, target), default: 0] + freeSlots(for: queue, target) * target.maxBatch
        return target.asksProvider ? min(seats, probes[target.provider] ?? seats) : seats
    }

    private func freeSlots(for queue: KindLane, _ target: ClaimTarget) -> Int {
        max(0, min(held.room(queue.lane, of: capacity.concurrency), room(of: target, queue.lane)))
    }

    private func room(of target: ClaimTarget, _ lane: ReloadLane) -> Int {
        guard target.asksProvider else { return capacity.concurrency }
        let own = heldOfProvider[target.provider, default: HeldSlots()]
        let limit = capacity.allowances[target.provider]?.requests ?? capacity.requestsPerProvider
        return capacity.room(of: limit, lane, own, all: held)
    }

    /// Takes timelines of an eligible queue and plans the requests for them. The last list is taken as a whole, beyond
    /// the limit and the room, and uses up the room of others.
    mutating func take(from queue: KindLane, atMost limit: Int) -> LaneTimelines {
        let target = target(of: queue)
        let wanted = min(due[queue, default: 0], limit, places(for: queue, target))
        var taken = LaneTimelines(queue, count: 0)
        while taken.count < wanted, let size = lists[queue]?.popFirst() {
            taken.count += size
            taken.sizes.append(size)
        }
        let count = max(taken.count, wanted)
        taken.count = count
        let beyond = count - openPlaces[group(queue, target), default: 0]
        if beyond > 0 {
            let opened = min((beyond + target.maxBatch - 1) / target.maxBatch, freeSlots(for: queue, target))
            held.add(opened, queue.lane)
            heldOfProvider[target.provider, default: HeldSlots()].add(opened, queue.lane)
            openPlaces[group(queue, target)] = max(0, opened * target.maxBatch - beyond)
        } else {
            openPlaces[group(queue, target)] = -beyond
        }
        timelines -= count
        if !queue.lane.isUrgent { patientTimelines -= count }
        if target.asksProvider, let left = probes[target.provider] { probes[target.provider] = left - count }
        let left = due[queue, default: 0] - count
        due[queue] = left > 0 ? left : nil
        eligible = eligible.filter { due[$0.key] != nil && places(for: $0.key, $0.value) > 0 }
        return taken
    }
}

/// Order of lanes: next is the lane served least for its weight, the more urgent of equals.
///
/// Lanes with work share 8 : 4 : 2 : 1, so none starves, and unused shares go to the others. An empty lane saves no
/// credit.
struct LaneShares: Sendable {
    private static let weights: [ReloadLane: Int] = [.interactive: 8, .push: 4, .scheduled: 2, .bulk: 1]

    /// Served work by lane, divided by the weight.
    private var served: [ReloadLane: Int] = [:]
    private var active: Set<ReloadLane> = []

    mutating func begin(with lanes: Set<ReloadLane>) {
        let floor = lanes.intersection(active).map { served[$0, default: 0] }.min()
        for lane in lanes.subtracting(active) {
            served[lane] = floor.map { max($0, served[lane, default: 0]) } ?? 0
        }
        active = lanes
        // Only differences count; small numbers do not overflow.
        let least = lanes.map { served[$0, default: 0] }.min() ?? 0
        served = served.filter { lanes.contains($0.key) }.mapValues { $0 - least }
    }

    func next(among lanes: Set<ReloadLane>) -> ReloadLane? {
        lanes.min { left, right in
            (served[left, default: 0], left.rawValue) < (served[right, default: 0], right.rawValue)
        }
    }

    mutating func charge(_ lane: ReloadLane, _ amount: Int) {
        let greatest = Self.weights[.interactive, default: 1]
        served[lane, default: 0] += amount * greatest / Self.weights[lane, default: 1]
    }
}

/// Order of turns among keys with work, by deficit round-robin: each visit is worth a quantum, and work beyond it
/// counts against the next visit. Over time every key gets the same amount, whatever its backlog and the size of the
/// pieces.
struct DeficitRoundRobin<Key: Hashable & Comparable>: Sendable where Key: Sendable {
    private var deficits: [Key: Int] = [:]
    private var current: Key?

    /// Forgets keys without work, which start anew without credit.
    mutating func keep(only keys: Set<Key>) {
        deficits = deficits.filter { keys.contains($0.key) }
    }

    /// The next key to serve: the current one while its quantum lasts, then the others in turn. Nil without keys.
    mutating func next(among keys: Set<Key>, quantum: (Key) -> Int) -> Key? {
        if let current, keys.contains(current), deficits[current, default: 0] > 0 { return current }
        let order = keys.sorted()
        guard !order.isEmpty else { return nil }
        var turn = current.flatMap { current in order.firstIndex { $0 > current } } ?? order.startIndex
        // Every visit adds at least one, so the search ends.
        while true {
            let key = order[turn]
            deficits[key, default: 0] += max(1, quantum(key))
            current = key
            if deficits[key, default: 0] > 0 { return key }
            turn = (turn + 1) % order.count
        }
    }

    /// Charges served work to a key.
    mutating func charge(_ key: Key, _ amount: Int) {
        deficits[key, default: 0] -= amount
    }
}

/// Start times of looks for due work while complete looks are slow.
///
/// Every claim leaves a dead version at the start of the claims' index. An open transaction keeps vacuum from removing
/// them, and each look and claim reads them again. After a slow look, the next ones start shortly before the latest
/// claimed list of a kind and lane; complete looks at intervals find lists that were committed late or locked.
///
/// Pure: no I/O, no clock.
struct ClaimWatermarks: Sendable {
    /// Duration of a slow look; without dead versions it takes one or two milliseconds.
    static let slow = Duration.milliseconds(15)
    /// Distance of the next look's start before the latest claimed list: a mark is due from the start of its
    /// transaction, and visible from its end.
    static let slack = Duration.milliseconds(500)
    /// Least time between complete looks, and its least ratio to their duration.
    private static let interval = Duration.seconds(1)
    private static let share = 10

    private var times: [KindLane: Timestamp] = [:]
    /// Duration and end of the latest complete look.
    private var full: (took: Duration, at: Duration)?

    /// Whether the next look may start at the watermarks.
    func isPartial(at now: Duration) -> Bool {
        guard let full, full.took > Self.slow, !times.isEmpty else { return false }
        return now - full.at < max(Self.interval, full.took * Self.share)
    }

    mutating func recordCompleteLook(took: Duration, at now: Duration) {
        full = (took, now)
        if took <= Self.slow { times.removeAll() }
    }

    /// Notes claimed lists: earlier lists of their queues are claimed too, unless they were locked or just written.
    mutating func recordClaim(_ rows: [ClaimRow]) {
        guard let full, full.took > Self.slow else { return }
        for row in rows {
            let queue = KindLane(kindID: row.list.kindID, lane: row.list.lane)
            times[queue] = max(times[queue] ?? .distantPast, row.readySince - Self.slack)
        }
    }

    func since(_ queue: KindLane) -> Timestamp { times[queue] ?? .distantPast }
}
