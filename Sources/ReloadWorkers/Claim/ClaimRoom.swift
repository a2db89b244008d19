import WidgetModel
import WidgetStore

/// Due work and free capacity while a claim is planned.
struct ClaimRoom {
    typealias Queue = LaneWork

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
    private var due: [Queue: Int] = [:]
    /// Lists of the due work that are not taken yet.
    private var lists: [Queue: ArraySlice<Int>] = [:]
    private let targets: [Int32: ClaimTarget]
    private let capacity: ClaimCapacity
    /// The queues with due work and room for it.
    private(set) var eligible: [Queue: ClaimTarget] = [:]

    init(due rows: [LaneTimelines], targets: [Int32: ClaimTarget], capacity: ClaimCapacity) {
        timelines = capacity.timelines
        patientTimelines = min(capacity.timelines, capacity.patientTimelines)
        heldOfProvider = capacity.inFlight
        probes = capacity.allowances.compactMapValues(\.timelines)
        held = capacity.inFlight.values.reduce(HeldSlots(), +)
        self.targets = targets
        self.capacity = capacity
        for row in rows where row.count > 0 {
            guard targets[row.kindID] != nil else { continue }
            let queue = Queue(kindID: row.kindID, lane: row.lane)
            due[queue, default: 0] += row.count
            if !row.sizes.isEmpty { lists[queue] = row.sizes[...] }
        }
        eligible = due.keys.reduce(into: [:]) { eligible, queue in
            if let target = targets[queue.kindID], places(for: queue, target) > 0 { eligible[queue] = target }
        }
    }

    /// Whether due work stays behind for want of slots.
    var isHeldBack: Bool { due.keys.contains { seats(for: $0, target(of: $0)) == 0 } }

    /// Whether due work with free slots stays behind because the claim is full.
    var isFull: Bool { due.keys.contains { seats(for: $0, target(of: $0)) > 0 } }

    /// The target of a queue, which exists only for known kinds.
    func target(of queue: Queue) -> ClaimTarget {
        guard let target = targets[queue.kindID] else {
            preconditionFailure("a queue is made only for a kind with a target")
        }
        return target
    }

    private func group(_ queue: Queue, _ target: ClaimTarget) -> Group {
        Group(provider: target.provider, isUrgent: queue.lane.isUrgent)
    }

    private func places(for queue: Queue, _ target: ClaimTarget) -> Int {
        min(queue.lane.isUrgent ? timelines : min(timelines, patientTimelines), seats(for: queue, target))
    }

    /// Places in planned and further requests.
    private func seats(for queue: Queue, _ target: ClaimTarget) -> Int {
        let seats = openPlaces[group(queue, target), default: 0] + freeSlots(for: queue, target) * target.maxBatch
        return target.asksProvider ? min(seats, probes[target.provider] ?? seats) : seats
    }

    private func freeSlots(for queue: Queue, _ target: ClaimTarget) -> Int {
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
    mutating func take(from queue: Queue, atMost limit: Int) -> LaneTimelines {
        let target = target(of: queue)
        let wanted = min(due[queue, default: 0], limit, places(for: queue, target))
        var taken = LaneTimelines(kindID: queue.kindID, lane: queue.lane, count: 0)
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
