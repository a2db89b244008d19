// SPDX-License-Identifier: Apache-2.0

import Metrics
import Synchronization
import Waiting
package import WidgetModel
import WidgetStore

/// Wakes requests that wait for timelines to change. The process has one, fed by one reader of the timelines topic.
///
/// A wake-up is a hint to read the database; hints before the next read are merged. If many waiters wake at once, as
/// for a widely shared timeline or after a gap in the topic, all but the first are delayed randomly, so that their
/// queries are spread.
package final class TimelineChanges: Sendable {
    /// Subject of a wait.
    enum Key: Hashable, Sendable {
        case timeline(TimelineID)
        /// Any timeline of a user.
        case user(app: String, user: String)
        /// The outcome of an event.
        case event(EventName)
    }

    /// Limits on waiters by mode.
    package struct Limits: Hashable, Sendable {
        /// Requests that wait for a timeline.
        package var polls = 10_000
        /// Open streams.
        package var streams = 2_000
        /// Both, for one app; 0 for half of each limit.
        package var ofApp = 0
    }

    /// Reason to refuse a wait.
    enum Refusal: Error {
        /// The process is at its limit, or stops.
        case full
        /// The app or the user is at its quota.
        case quota
    }

    enum Mode: String, Hashable, Sendable, CaseIterable { case poll, stream }

    /// Owner of a wait: an app's backend or a user's device.
    struct Holder: Hashable, Sendable {
        let app: String
        var user: String?
    }

    /// Largest number of waits of each type for one user.
    static let placesOfUser = 32

    fileprivate struct Waiter {
        let mode: Mode
        let holder: Holder
        var keys: Set<Key> = []
        /// Whether there was a hint since the last wait.
        var isSignalled = false
        /// Continuation of the waiting task, if any.
        var continuation: CheckedContinuation<Waking, Never>?
    }

    /// Result of a wait, and the time to wait before the next read of the database.
    fileprivate typealias Waking = (outcome: Watch.Outcome, delay: Duration)

    fileprivate struct State {
        var waiters: [UInt64: Waiter] = [:]
        var byKey: [Key: Set<UInt64>] = [:]
        var counts: [Mode: Int] = [:]
        /// Waits by app and by user.
        var held: [Holder: [Mode: Int]] = [:]
        var userKeys = 0
        var eventKeys = 0
        var next: UInt64 = 0
        var isClosed = false
        var isLive = false

        /// Number of an app's waits.
        func places(of app: String) -> Int {
            held[Holder(app: app)]?.values.reduce(0, +) ?? 0
        }

        /// Changes the number of waits of an app and its user.
        mutating func hold(_ mode: Mode, _ holder: Holder, _ change: Int) {
            for holder in Set([Holder(app: holder.app), holder]) {
                held[holder, default: [:]][mode, default: 0] += change
                if held[holder]?.values.allSatisfy({ $0 <= 0 }) == true { held[holder] = nil }
            }
        }

        /// Notes a hint for a waiter and returns the continuation of its task, if one waits.
        mutating func signal(_ id: UInt64) -> CheckedContinuation<Waking, Never>? {
            guard let continuation = waiters[id]?.continuation else {
                waiters[id]?.isSignalled = true
                return nil
            }
            waiters[id]?.continuation = nil
            return continuation
        }

        /// Parks a task, or returns the outcome if there is one already.
        mutating func park(
            _ id: UInt64, _ continuation: CheckedContinuation<Waking, Never>
        ) -> Watch.Outcome? {
            guard !isClosed, let waiter = waiters[id], waiter.continuation == nil else { return .ended }
            if waiter.isSignalled {
                waiters[id]?.isSignalled = false
                return .changed
            }
            waiters[id]?.continuation = continuation
            return nil
        }

        /// Removes and returns the continuation of the waiting task.
        mutating func unpark(_ id: UInt64) -> CheckedContinuation<Waking, Never>? {
            defer { waiters[id]?.continuation = nil }
            return waiters[id]?.continuation
        }

        mutating func setKeys(_ keys: Set<Key>, of id: UInt64) {
            guard let old = waiters[id]?.keys else { return }
            for key in old.subtracting(keys) {
                byKey[key]?.remove(id)
                if byKey[key]?.isEmpty == true { byKey[key] = nil }
                if case .user = key { userKeys -= 1 }
                if case .event = key { eventKeys -= 1 }
            }
            for key in keys.subtracting(old) {
                byKey[key, default: []].insert(id)
                if case .user = key { userKeys += 1 }
                if case .event = key { eventKeys += 1 }
            }
            waiters[id]?.keys = keys
        }
    }

    /// Waiters that are woken without delay; others are woken at this rate, with at most this delay.
    private static let wokenAtOnce = 64
    private static let wokenInSecond = 1_000
    private static let longestDelay = Duration.seconds(5)

    private let limits: Limits
    private let state = Mutex(State())
    private let waiting: [Mode: Meter]
    /// Signalled when a request begins to wait for an outcome.
    let eventsAwaited = Signal()

    /// Interval of checks of a waiting request without a change: whether the client is there and its token still valid.
    package let patience: Duration

    package init(
        limits: Limits = Limits(), patience: Duration = .seconds(15), metrics: MetricRegistry = MetricRegistry()
    ) {
        self.limits = limits
        self.patience = patience
        waiting = Dictionary(
            uniqueKeysWithValues: Mode.allCases.map { ($0, metrics.apiWaiting($0.rawValue)) })
    }

    /// Largest number of waits of one app.
    var placesOfApp: Int { limits.ofApp > 0 ? limits.ofApp : half(of: limits.polls) + half(of: limits.streams) }

    /// Number of an app's waits.
    func places(of app: String) -> Int { state.withLock { $0.places(of: app) } }

    private func half(of limit: Int) -> Int { max(1, limit / 2) }

    /// Registers a waiter. An app is limited to ``placesOfApp`` and to half of each limit, a user to ``placesOfUser``.
    func watch(_ mode: Mode, _ keys: Set<Key>, for holder: Holder) throws(Refusal) -> Watch {
        let id = try state.withLock { state throws(Refusal) in
            let limit = mode == .poll ? limits.polls : limits.streams
            guard !state.isClosed, state.counts[mode, default: 0] < limit else { throw .full }
            guard state.held[Holder(app: holder.app)]?[mode] ?? 0 < half(of: limit),
                state.places(of: holder.app) < placesOfApp,
                holder.user == nil || state.held[holder]?[mode] ?? 0 < Self.placesOfUser
            else { throw .quota }
            state.next += 1
            state.counts[mode, default: 0] += 1
            state.hold(mode, holder, 1)
            state.waiters[state.next] = Waiter(mode: mode, holder: holder)
            state.setKeys(keys, of: state.next)
            return state.next
        }
        waiting[mode]?.increment(by: 1.0)
        if state.withLock({ $0.eventKeys > 0 }) { eventsAwaited.signal() }
        return Watch(changes: self, id: id)
    }

    /// Numbers of waiters.
    package var counts: (polls: Int, streams: Int) {
        state.withLock { ($0.counts[.poll, default: 0], $0.counts[.stream, default: 0]) }
    }

    /// Whether any client waits for all timelines of a user, so that the owner of each changed timeline must be read.
    var wantsUsers: Bool { state.withLock { $0.userKeys > 0 } }

    /// Events whose outcome requests wait for.
    var awaitedEvents: [EventName] {
        state.withLock { state in
            guard state.eventKeys > 0 else { return [] }
            return state.byKey.keys.compactMap { key in
                guard case .event(let event) = key else { return nil }
                return event
            }
        }
    }

    /// Whether the topic is being read. While it is not, waiters poll.
    var isLive: Bool { state.withLock { $0.isLive } }

    func set(isLive: Bool) {
        state.withLock { $0.isLive = isLive }
    }

    func notify(_ keys: [Key]) {
        let woken = state.withLock { state in
            var ids: Set<UInt64> = []
            for key in keys { ids.formUnion(state.byKey[key] ?? []) }
            return ids.compactMap { state.signal($0) }
        }
        wake(woken)
    }

    /// Wakes all waiters, since anything may have changed.
    func notifyAll() {
        wake(state.withLock { state in state.waiters.keys.compactMap { state.signal($0) } })
    }

    private func wake(_ woken: [CheckedContinuation<Waking, Never>]) {
        let window = Self.window(for: woken.count)
        for (index, continuation) in woken.enumerated() {
            let delay = index < Self.wokenAtOnce ? .zero : window * Double.random(in: 0..<1)
            continuation.resume(returning: (.changed, delay))
        }
    }

    /// Time over which the wake-ups of a number of waiters are spread.
    static func window(for count: Int) -> Duration {
        guard count > wokenAtOnce else { return .zero }
        return min(longestDelay, .seconds(1) * count / wokenInSecond)
    }

    /// Ends all waits because the process stops.
    package func close() {
        let ended = state.withLock { state in
            state.isClosed = true
            return state.waiters.keys.compactMap { state.unpark($0) }
        }
        for continuation in ended { continuation.resume(returning: (.ended, .zero)) }
    }

    /// Waits for the next hint.
    fileprivate func next(_ id: UInt64) async -> Waking {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let outcome = state.withLock { $0.park(id, continuation) }
                if let outcome { continuation.resume(returning: (outcome, .zero)) }
                // The cancellation handler may have run before the continuation was parked.
                if Task.isCancelled { unpark(id) }
            }
        } onCancel: {
            unpark(id)
        }
    }

    private func unpark(_ id: UInt64) {
        state.withLock { $0.unpark(id) }?.resume(returning: (.ended, .zero))
    }

    fileprivate func setKeys(_ keys: Set<Key>, of id: UInt64) {
        state.withLock { $0.setKeys(keys, of: id) }
    }

    fileprivate func end(_ id: UInt64) {
        let mode: Mode? = state.withLock { state in
            state.setKeys([], of: id)
            guard let waiter = state.waiters.removeValue(forKey: id) else { return nil }
            state.counts[waiter.mode, default: 0] -= 1
            state.hold(waiter.mode, waiter.holder, -1)
            return waiter.mode
        }
        if let mode { waiting[mode]?.decrement(by: 1.0) }
    }

    /// Registration of a waiter, which ends with the object.
    final class Watch: Sendable {
        private let changes: TimelineChanges
        private let id: UInt64

        fileprivate init(changes: TimelineChanges, id: UInt64) {
            self.changes = changes
            self.id = id
        }

        deinit { changes.end(id) }

        /// Replaces the subjects of the wait.
        func set(_ keys: Set<Key>) {
            changes.setKeys(keys, of: id)
        }

        enum Outcome: Hashable, Sendable {
            /// A subject may have changed.
            case changed
            case timedOut
            /// The process stops or the task was cancelled.
            case ended
        }

        /// Waits for the next hint, or returns at once if one came since the last call. For one task at a time.
        func wait(atMost time: Duration) async -> Outcome {
            await withTaskGroup(of: Outcome.self) { group in
                group.addTask { [changes, id] in
                    let waking = await changes.next(id)
                    if waking.delay > .zero { try? await Task.sleep(for: waking.delay) }
                    return waking.outcome
                }
                group.addTask {
                    do {
                        try await Task.sleep(for: time)
                        return .timedOut
                    } catch {
                        return .ended
                    }
                }
                let first = await group.next() ?? .ended
                group.cancelAll()
                // A hint at the last moment, or a delayed one, counts.
                if first == .timedOut, await group.next() == .changed { return .changed }
                return first
            }
        }
    }
}
