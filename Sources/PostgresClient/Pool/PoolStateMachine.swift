/// State of the pool: connections, waiting callers, and the time of the next attempt to connect. Free of I/O and clocks: each
/// event returns the actions to take once the lock is released.
struct PoolStateMachine {
    typealias Instant = ContinuousClock.Instant
    typealias SlotID = UInt64
    typealias WaiterID = UInt64

    enum Slot: Hashable {
        /// Becomes `idle`, or is removed.
        case connecting
        /// Becomes `lent`, or is removed.
        case idle
        /// Becomes `idle`, `closing`, or `orphaned`.
        case lent
        /// Lent, and its connection is gone. Is removed when it is given back.
        case orphaned
        /// Is removed.
        case closing
    }

    enum Action: Equatable {
        case open(SlotID)
        case close(SlotID)
        case lend(SlotID, to: WaiterID)
        /// The waiter waited in vain.
        case fail(WaiterID, FailureReason)
        /// The time of the next ``PoolStateMachine/timerFired(now:)`` may have become earlier.
        case rearmTimer
        case finishShutdown
    }

    enum FailureReason: Equatable {
        /// All connections are in use.
        case poolTimeout
        /// No connection can be made; the latest attempt's error says why.
        case connectFailed
        case shutdown
    }

    enum Phase {
        case running, shuttingDown, shutDown
    }

    private struct Waiter {
        let id: WaiterID
        let deadline: Instant
    }

    private let maximum: Int
    private let acquireTimeout: Duration
    private let backoff: PostgresBackoff

    private(set) var phase = Phase.running
    private(set) var slots: [SlotID: Slot] = [:]
    /// Idle slots; the one used last is lent first, so that its caches are warm.
    private var idle: [SlotID] = []
    /// In the order of arrival, which is that of their deadlines as well.
    private var waiters: [Waiter] = []
    private var nextSlot: SlotID = 0
    /// Attempts that failed since one succeeded, and when the next is due.
    private var failures = 0
    private var retryAt: Instant?

    init(maximum: Int, acquireTimeout: Duration, backoff: PostgresBackoff) {
        self.maximum = maximum
        self.acquireTimeout = acquireTimeout
        self.backoff = backoff
    }

    var waiting: Int { waiters.count }

    /// Whether the latest attempt to connect failed.
    var isFailing: Bool { failures > 0 }

    func count(_ slot: Slot) -> Int { slots.values.count { $0 == slot } }

    /// When ``timerFired(now:)`` is due.
    var nextTimer: Instant? {
        let deadline = waiters.first?.deadline
        guard let retryAt, !waiters.isEmpty else { return deadline }
        return deadline.map { min($0, retryAt) } ?? retryAt
    }

    mutating func acquireRequested(_ waiter: WaiterID, now: Instant) -> [Action] {
        guard phase == .running else { return [.fail(waiter, .shutdown)] }
        if waiters.isEmpty, let slot = idle.popLast() {
            slots[slot] = .lent
            return [.lend(slot, to: waiter)]
        }
        waiters.append(Waiter(id: waiter, deadline: now + acquireTimeout))
        return openIfNeeded(now: now) + (waiters.count == 1 ? [.rearmTimer] : [])
    }

    /// Answers whether the waiter still waited.
    mutating func waiterCancelled(_ waiter: WaiterID) -> Bool {
        guard let index = waiters.firstIndex(where: { $0.id == waiter }) else { return false }
        waiters.remove(at: index)
        return true
    }

    mutating func connectionOpened(_ slot: SlotID, now: Instant) -> [Action] {
        failures = 0
        retryAt = nil
        guard phase == .running else {
            slots[slot] = .closing
            return [.close(slot)]
        }
        return lendOrKeep(slot) + openIfNeeded(now: now)
    }

    /// The connection of a slot is gone, or could not be made.
    mutating func connectionClosed(
        _ slot: SlotID, isRefused: Bool, now: Instant, random: Double
    ) -> [Action] {
        var actions: [Action] = []
        switch slots[slot] {
        case .connecting:
            slots[slot] = nil
            if phase == .running {
                failures += 1
                retryAt = now + backoff.delay(afterFailures: failures, random: random)
                // Waiting cures a server that is away, not a wrong password.
                if isRefused { actions += failAll(.connectFailed) }
                actions.append(.rearmTimer)
            }
        case .idle:
            slots[slot] = nil
            idle.removeAll { $0 == slot }
        case .lent:
            slots[slot] = .orphaned
        case .closing, .orphaned, nil:
            slots[slot] = nil
        }
        return actions + openIfNeeded(now: now) + finishIfEmpty()
    }

    mutating func connectionReturned(_ slot: SlotID, isReusable: Bool, now: Instant) -> [Action] {
        switch slots[slot] {
        case .orphaned:
            slots[slot] = nil
            return openIfNeeded(now: now) + finishIfEmpty()
        case .lent:
            guard isReusable, phase == .running else {
                slots[slot] = .closing
                return [.close(slot)]
            }
            return lendOrKeep(slot)
        default:
            return []
        }
    }

    /// The server of the idle connections is of no use any more.
    mutating func closeIdle() -> [Action] {
        defer { idle = [] }
        for slot in idle { slots[slot] = .closing }
        return idle.map { .close($0) }
    }

    mutating func timerFired(now: Instant) -> [Action] {
        var actions: [Action] = []
        if let retryAt, retryAt <= now { self.retryAt = nil }
        let expired = waiters.prefix { $0.deadline <= now }
        waiters.removeFirst(expired.count)
        actions += expired.map { .fail($0.id, isFailing ? .connectFailed : .poolTimeout) }
        return actions + openIfNeeded(now: now)
    }

    mutating func shutdownRequested() -> [Action] {
        guard phase == .running else { return phase == .shutDown ? [.finishShutdown] : [] }
        phase = .shuttingDown
        var actions = failAll(.shutdown)
        idle = []
        for (slot, state) in slots where state == .idle || state == .connecting {
            slots[slot] = .closing
            actions.append(.close(slot))
        }
        return actions + finishIfEmpty()
    }

    private mutating func lendOrKeep(_ slot: SlotID) -> [Action] {
        guard !waiters.isEmpty else {
            slots[slot] = .idle
            idle.append(slot)
            return []
        }
        slots[slot] = .lent
        return [.lend(slot, to: waiters.removeFirst().id)]
    }

    /// Opens a connection for each waiter that has none under way; one at a time, with back-off, while they fail.
    private mutating func openIfNeeded(now: Instant) -> [Action] {
        guard phase == .running else { return [] }
        if let retryAt, retryAt > now { return [] }
        let connecting = count(.connecting)
        let wanted = isFailing ? min(1, waiters.count) : waiters.count
        let number = min(wanted - connecting, maximum - slots.count)
        guard number > 0 else { return [] }
        return (0..<number).map { _ in
            nextSlot += 1
            slots[nextSlot] = .connecting
            return .open(nextSlot)
        }
    }

    private mutating func failAll(_ reason: FailureReason) -> [Action] {
        defer { waiters = [] }
        return waiters.map { .fail($0.id, reason) }
    }

    private mutating func finishIfEmpty() -> [Action] {
        guard phase == .shuttingDown, slots.isEmpty else { return [] }
        phase = .shutDown
        return [.finishShutdown]
    }
}
