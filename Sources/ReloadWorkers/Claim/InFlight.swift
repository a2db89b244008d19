import Synchronization
import WidgetModel
import WidgetStore

/// What this worker is working on: requests by provider, and the leases it holds.
final class InFlight: Sendable {
    private struct State {
        /// Requests on their way, by provider.
        var requests: [ProviderKey: HeldSlots] = [:]
        /// Batches that are not done yet, with what follows the request.
        var batches = 0
        var leases: [TimelineID: Int64] = [:]
        /// How many requests and batches have ended.
        var ended: UInt64 = 0
        /// The claim loop left due work behind for want of room.
        var isHeldBack = false

        /// The claim loop lets work gather until fewer batches are under way.
        var isGathering = false

        /// Answers whether somebody waits for the room that is free now, and for what.
        mutating func freeRoom() -> Awaited? {
            ended += 1
            defer { (isHeldBack, isGathering) = (false, false) }
            return isHeldBack ? .room : isGathering ? .gathered : nil
        }
    }

    private enum Awaited {
        /// For work that was left behind: only the database knows what.
        case room
        /// For work whose signals have come already.
        case gathered
    }

    /// Batches that may be unfinished, for each request that may be under way: those that are being stored, published and
    /// completed have no request any more.
    private static let batchesPerRequest = 4

    private let state = Mutex(State())
    /// Told when there is room again for work that was left behind.
    private let signal: WorkSignal
    /// Told whenever something ends.
    private let changes = WorkSignal()

    init(signal: WorkSignal) {
        self.signal = signal
    }

    /// What there is room for, and how many endings it takes into account.
    func capacity(_ configuration: WorkerConfiguration) -> (capacity: ClaimCapacity, ended: UInt64) {
        state.withLock { state in
            // Who stores and completes asks nobody any more: else slow commits would look like busy providers.
            let asking = state.requests.values.reduce(0) { $0 + $1.all }
            let unfinished = configuration.concurrency * Self.batchesPerRequest - state.batches
            let capacity = ClaimCapacity(
                timelines: max(0, configuration.maximumTimelinesInFlight - state.leases.count),
                patientTimelines: configuration.patientClaimBatch,
                requests: max(0, min(configuration.concurrency - asking, unfinished)),
                concurrency: configuration.concurrency,
                requestsPerProvider: configuration.providerConcurrency, inFlight: state.requests)
            return (capacity, state.ended)
        }
    }

    /// Says that due work stays behind for want of room. Answers false, and so asks to look again, when something has
    /// ended since the capacity was read.
    func holdBack(since ended: UInt64) -> Bool {
        state.withLock { state in
            state.isHeldBack = state.ended == ended
            return state.isHeldBack
        }
    }

    /// Whether fewer batches than this are under way; if not, the signal comes when the next one has ended.
    func isBelow(_ batches: Int) -> Bool {
        state.withLock { state in
            if state.batches < batches { return true }
            state.isGathering = true
            return false
        }
    }

    /// Takes the leases of what was claimed.
    func hold(_ timelines: [ClaimedTimeline]) {
        state.withLock { state in
            for timeline in timelines { state.leases[timeline.id] = timeline.claim }
        }
    }

    /// A lease has ended: completed, failed, given back, or lost. A later claim of the same timeline stays.
    func drop(_ timelines: some Sequence<(id: TimelineID, claim: Int64)>) {
        state.withLock { state in
            for (id, claim) in timelines where state.leases[id] == claim { state.leases[id] = nil }
        }
    }

    /// The leases still held.
    var leases: [(id: TimelineID, claim: Int64)] {
        state.withLock { $0.leases.map { (id: $0.key, claim: $0.value) } }
    }

    /// A batch begins, with a request to a provider if it has one.
    ///
    /// - Parameter lane: the most urgent of the batch.
    func begin(_ provider: ProviderKey?, _ lane: ReloadLane = .interactive) {
        state.withLock { state in
            if let provider { state.requests[provider, default: HeldSlots()].add(1, lane) }
            state.batches += 1
        }
    }

    /// The slots that a provider's requests hold.
    func held(by provider: ProviderKey) -> HeldSlots {
        state.withLock { $0.requests[provider] ?? HeldSlots() }
    }

    /// A request that belongs to no batch takes a slot of its provider, if one is free; ``end(_:_:)`` frees it.
    func beginAside(_ provider: ProviderKey, _ lane: ReloadLane, limit: Int) -> Bool {
        state.withLock { state in
            var held = state.requests[provider] ?? HeldSlots()
            guard held.room(lane, of: limit) > 0 else { return false }
            held.add(1, lane)
            state.requests[provider] = held
            return true
        }
    }

    /// A batch's request has ended; the provider has a free slot.
    func end(_ provider: ProviderKey, _ lane: ReloadLane = .interactive) {
        let awaited = state.withLock { state in
            if var left = state.requests[provider] {
                left.add(-1, lane)
                state.requests[provider] = left.all > 0 ? left : nil
            }
            return state.freeRoom()
        }
        tell(awaited)
    }

    /// A batch is done.
    func finish() {
        let awaited = state.withLock { state in
            state.batches -= 1
            return state.freeRoom()
        }
        tell(awaited)
        changes.signal(.timelines)
    }

    private func tell(_ awaited: Awaited?) {
        switch awaited {
        case .room: signal.signal(.timelines)
        case .gathered: signal.signal(marked: [])
        case nil: break
        }
    }

    /// Waits until no batch is under way, but not longer than `limit`.
    ///
    /// - Throws: `CancellationError`.
    func drained(within limit: Duration, clock: WorkerClock) async throws {
        _ = try await clock.withLimit(limit) { [self] in
            while true {
                let mark = changes.mark(.timelines)
                if state.withLock({ $0.batches == 0 }) { return }
                try await changes.wait(past: mark)
            }
        }
    }
}
