import WidgetModel
import WidgetStore

/// What is due and what there is still room for, while a claim is being planned.
struct ClaimRoom {
    struct Queue: Hashable {
        let kindID: Int32
        let lane: ReloadLane
    }

    /// Timelines that may still be claimed.
    private(set) var timelines: Int
    private var requests: Int
    private var slots: [ProviderKey: Int] = [:]
    /// Places left in requests that are planned already, by kind: lanes share them.
    private var openPlaces: [Int32: Int] = [:]
    private var due: [Queue: Int] = [:]
    private let targets: [Int32: ClaimTarget]
    /// The queues with due work and room for it.
    private(set) var eligible: [Queue: ClaimTarget] = [:]

    init(due rows: [DueWork.Row], targets: [Int32: ClaimTarget], capacity: ClaimCapacity) {
        timelines = capacity.timelines
        requests = capacity.requests
        self.targets = targets
        for row in rows where row.count > 0 {
            guard let target = targets[row.kindID] else { continue }
            due[Queue(kindID: row.kindID, lane: row.lane), default: 0] += row.count
            slots[target.provider] = max(0, capacity.free(target.provider))
        }
        eligible = due.keys.reduce(into: [:]) { eligible, queue in
            if let target = targets[queue.kindID], places(for: queue, target) > 0 { eligible[queue] = target }
        }
    }

    /// Whether anything that may be claimed is still due.
    var hasWork: Bool { !due.isEmpty }

    /// Only queues of known kinds are ever made.
    func target(of queue: Queue) -> ClaimTarget {
        guard let target = targets[queue.kindID] else {
            preconditionFailure("a queue is made only for a kind with a target")
        }
        return target
    }

    private func places(for queue: Queue, _ target: ClaimTarget) -> Int {
        let free = min(requests, slots[target.provider, default: 0])
        return min(timelines, openPlaces[queue.kindID, default: 0] + free * target.maxBatch)
    }

    /// Takes timelines of an eligible queue, opening requests as they are needed.
    mutating func take(from queue: Queue, atMost limit: Int) -> Int {
        let target = target(of: queue)
        let count = min(due[queue, default: 0], limit, places(for: queue, target))
        let beyond = count - openPlaces[queue.kindID, default: 0]
        if beyond > 0 {
            let opened = (beyond + target.maxBatch - 1) / target.maxBatch
            requests -= opened
            slots[target.provider, default: 0] -= opened
            openPlaces[queue.kindID] = opened * target.maxBatch - beyond
        } else {
            openPlaces[queue.kindID] = -beyond
        }
        timelines -= count
        due[queue, default: 0] -= count
        if due[queue] == 0 { due[queue] = nil }
        eligible = eligible.filter { due[$0.key] != nil && places(for: $0.key, $0.value) > 0 }
        return count
    }
}
