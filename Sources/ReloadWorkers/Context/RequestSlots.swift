import Synchronization
import WidgetModel

/// Requests on their way, by provider: how many more there may be.
final class RequestSlots: Sendable {
    private let held = Mutex<[ProviderKey: HeldSlots]>([:])

    /// Slots that all requests hold.
    var all: [ProviderKey: HeldSlots] { held.withLock { $0 } }

    /// Slots that a provider's requests hold.
    func held(by provider: ProviderKey) -> HeldSlots {
        held.withLock { $0[provider] ?? HeldSlots() }
    }

    /// Takes a slot.
    ///
    /// - Parameter lane: the most urgent of the request's timelines.
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

    /// Frees a slot.
    func end(_ provider: ProviderKey, _ lane: ReloadLane) {
        held.withLock { held in
            guard var slots = held[provider] else { return }
            slots.add(-1, lane)
            held[provider] = slots.all > 0 ? slots : nil
        }
    }
}
