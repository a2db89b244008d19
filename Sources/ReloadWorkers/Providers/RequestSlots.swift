// SPDX-License-Identifier: Apache-2.0

import Synchronization
import WidgetModel
import WidgetStore

/// Numbers of slots in use.
struct HeldSlots: Hashable, Sendable {
    private(set) var all = 0
    /// Slots of the scheduled and bulk lanes.
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

    /// Number of further slots that a lane may hold, of a total.
    func room(_ lane: ReloadLane, of slots: Int) -> Int {
        var room = slots - all
        if !lane.isUrgent { room = min(room, ReloadLane.scheduled.most(of: slots) - patient) }
        if lane == .bulk { room = min(room, ReloadLane.bulk.most(of: slots) - bulk) }
        return max(0, room)
    }
}

extension ReloadLane {
    /// Whether a person may be waiting. The other lanes are patient: their work was not requested just now, or is part
    /// of a large reload.
    var isUrgent: Bool { self <= .push }

    /// Most slots of a total that requests of this lane may hold, so that some stay free for better lanes: all but a
    /// quarter for the patient lanes together, all but half for bulk, and at least one. Slots of urgent requests do not
    /// count, so that many of them do not exclude a patient lane.
    func most(of slots: Int) -> Int {
        switch self {
        case .interactive, .push: slots
        case .scheduled: slots - slots / 4
        case .bulk: slots - slots / 2
        }
    }
}

/// Slots of requests under way, by provider.
final class RequestSlots: Sendable {
    private let held = Mutex<[ProviderKey: HeldSlots]>([:])

    var all: [ProviderKey: HeldSlots] { held.withLock { $0 } }

    func held(by provider: ProviderKey) -> HeldSlots {
        held.withLock { $0[provider] ?? HeldSlots() }
    }

    /// Takes a slot if the provider has a free one for the lane.
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

    /// Number of further requests to a provider.
    ///
    /// Beyond ``requestsPerProvider``, its own and further slots are at most half of those that other providers leave
    /// free, so that hanging providers do not hold the pool.
    ///
    /// - Parameters:
    ///   - own: slots that the provider holds.
    ///   - all: slots that all providers hold, its own included.
    func room(of limit: Int, _ lane: ReloadLane, _ own: HeldSlots, all: HeldSlots) -> Int {
        let shared = (concurrency - all.all - own.all) / 2
        return min(own.room(lane, of: limit), max(requestsPerProvider - own.all, shared))
    }
}
