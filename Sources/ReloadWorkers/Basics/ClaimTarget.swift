import Synchronization
import WidgetModel
import WidgetStore

/// Provider of a kind's timelines: an endpoint of an app. Two apps at one URL are two providers.
struct ProviderKey: Hashable, Sendable {
    let appID: Int32
    let url: String
}

/// A kind as the scheduler sees it.
struct ClaimTarget: Hashable, Sendable {
    let appID: Int32
    let provider: ProviderKey
    /// As the kind says, or as much as the provider has been found to take.
    var maxBatch: Int
    /// Timelines of a retired kind are collected, which asks nobody.
    var asksProvider = true
}

extension ClaimTarget {
    init(_ kind: RegisteredKind) {
        self.init(
            appID: kind.appID, provider: ProviderKey(appID: kind.appID, url: kind.definition.providerURL),
            maxBatch: max(1, kind.definition.maxBatch), asksProvider: !kind.isRetired)
    }
}

struct HeldSlots: Hashable, Sendable {
    private(set) var all = 0
    /// Of the scheduled lane and of bulk.
    private(set) var patient = 0
    private(set) var bulk = 0

    mutating func add(_ count: Int, _ lane: ReloadLane) {
        all += count
        if !lane.isUrgent { patient += count }
        if lane == .bulk { bulk += count }
    }

    static func + (left: HeldSlots, right: HeldSlots) -> HeldSlots {
        var sum = left
        sum.all += right.all
        sum.patient += right.patient
        sum.bulk += right.bulk
        return sum
    }

    /// How many more of a number of slots a lane may hold.
    func room(_ lane: ReloadLane, of slots: Int) -> Int {
        var room = slots - all
        if !lane.isUrgent { room = min(room, ReloadLane.scheduled.most(of: slots) - patient) }
        if lane == .bulk { room = min(room, ReloadLane.bulk.most(of: slots) - bulk) }
        return max(0, room)
    }
}

extension ReloadLane {
    /// Whether somebody may be waiting for it. The other lanes are patient: what is in them was not asked for just now,
    /// or is a part of something so large that nobody looks at any one timeline of it.
    var isUrgent: Bool { self <= .push }

    /// How many of a number of slots requests of this lane may hold, so that some are free for what better lanes will
    /// want while these are on their way: all but a quarter for patient lanes together, all but half for bulk. One slot
    /// is every lane's. What urgent requests hold does not count, so no flood of them keeps a patient lane out.
    func most(of slots: Int) -> Int {
        switch self {
        case .interactive, .push: slots
        case .scheduled: slots - slots / 4
        case .bulk: slots - slots / 2
        }
    }
}

/// Requests on their way, by provider: how many more there may be.
final class RequestSlots: Sendable {
    private let held = Mutex<[ProviderKey: HeldSlots]>([:])

    var all: [ProviderKey: HeldSlots] { held.withLock { $0 } }

    func held(by provider: ProviderKey) -> HeldSlots {
        held.withLock { $0[provider] ?? HeldSlots() }
    }

    /// Takes a slot.
    func begin(_ provider: ProviderKey, _ lane: ReloadLane) {
        held.withLock { $0[provider, default: HeldSlots()].add(1, lane) }
    }

    /// Takes a slot if a provider has one free for the lane.
    func begin(_ provider: ProviderKey, _ lane: ReloadLane, limit: Int) -> Bool {
        held.withLock { held in
            var slots = held[provider] ?? HeldSlots()
            guard slots.room(lane, of: limit) > 0 else { return false }
            slots.add(1, lane)
            held[provider] = slots
            return true
        }
    }

    func end(_ provider: ProviderKey, _ lane: ReloadLane) {
        held.withLock { held in
            guard var slots = held[provider] else { return }
            slots.add(-1, lane)
            held[provider] = slots.all > 0 ? slots : nil
        }
    }
}
