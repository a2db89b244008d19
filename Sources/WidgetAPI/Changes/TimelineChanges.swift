import Synchronization
import WidgetModel

/// Wakes those who wait for timelines to change: one for the whole process, told by one reader of the timelines topic.
///
/// A waking is a hint: who is woken reads the database. Any number of hints before somebody looks are one, and nobody
/// is waited for. Only those are woken who wait for what has changed; where these are many (a timeline that everybody
/// shows, or a reader that may have missed something), all but the first wait a little longer, each as long as chance has it,
/// so that they do not come to the database at once.
package final class TimelineChanges: Sendable {
    /// What a waiter waits for.
    enum Key: Hashable, Sendable {
        case timeline(TimelineID)
        /// Any timeline of a person's own.
        case user(app: String, user: String)
    }

    /// How the waiters are bounded: each sort by itself.
    package struct Limits: Hashable, Sendable {
        /// Requests that wait for one timeline.
        package var polls: Int
        /// Streams that are open.
        package var streams: Int

        package init(polls: Int = 10_000, streams: Int = 2_000) {
            self.polls = polls
            self.streams = streams
        }
    }

    enum Sort: Hashable, Sendable { case poll, stream }

    /// On whose behalf somebody waits: an app's backend, or one person's device.
    struct Holder: Hashable, Sendable {
        let app: String
        var user: String?
    }

    /// Places of each sort that one person's tokens may take.
    static let placesOfUser = 32

    fileprivate struct Place: Hashable {
        let sort: Sort
        let holder: Holder
    }

    fileprivate struct Waiter {
        let sort: Sort
        let holder: Holder
        var keys: Set<Key> = []
        /// There was a hint that nobody has taken yet.
        var isSignalled = false
        /// Of the task that waits, if one does just now.
        var continuation: CheckedContinuation<Waking, Never>?
    }

    /// What a task that waits is told.
    fileprivate struct Waking: Sendable {
        let outcome: Watch.Outcome
        /// How much longer it is to wait.
        var delay = Duration.zero
    }

    fileprivate struct State {
        var waiters: [UInt64: Waiter] = [:]
        var byKey: [Key: Set<UInt64>] = [:]
        var counts: [Sort: Int] = [:]
        /// Of each app, and of each person.
        var held: [Place: Int] = [:]
        var userKeys = 0
        var next: UInt64 = 0
        var isClosed = false
        var isLive = false
    }

    /// So many are woken at once; of more, so many in a second, but none later than ``longestDelay``.
    private static let wokenAtOnce = 64
    private static let wokenInSecond = 1_000
    private static let longestDelay = Duration.seconds(5)

    private let limits: Limits
    private let state = Mutex(State())

    /// How often who waits is looked after by himself, whether something has changed or not: whether the other side is there,
    /// and his token still good.
    package let patience: Duration

    package init(limits: Limits = Limits(), patience: Duration = .seconds(15)) {
        self.limits = limits
        self.patience = patience
    }

    /// Nil when there are too many of the sort already, or the process stops. One app may take half of the places, and a
    /// person ``placesOfUser``, so that others find room.
    func watch(_ sort: Sort, _ keys: Set<Key>, for holder: Holder) -> Watch? {
        let id: UInt64? = state.withLock { state in
            let limit = sort == .poll ? limits.polls : limits.streams
            guard !state.isClosed, state.counts[sort, default: 0] < limit,
                state.held[Place(sort: sort, holder: Holder(app: holder.app)), default: 0] < max(1, limit / 2),
                holder.user == nil
                    || state.held[Place(sort: sort, holder: holder), default: 0] < Self.placesOfUser
            else { return nil }
            state.next += 1
            state.counts[sort, default: 0] += 1
            state.hold(sort, holder, 1)
            state.waiters[state.next] = Waiter(sort: sort, holder: holder)
            state.setKeys(keys, of: state.next)
            return state.next
        }
        return id.map { Watch(changes: self, id: $0) }
    }

    /// How many wait.
    package var counts: (polls: Int, streams: Int) {
        state.withLock { ($0.counts[.poll, default: 0], $0.counts[.stream, default: 0]) }
    }

    /// Whether somebody waits for what people have, so that it is worth finding out whose a timeline is.
    var wantsUsers: Bool { state.withLock { $0.userKeys > 0 } }

    /// Whether the reader of the topic reads. While it does not, who waits has to look by himself now and then.
    var isLive: Bool { state.withLock { $0.isLive } }

    func set(isLive: Bool) {
        state.withLock { $0.isLive = isLive }
    }

    func changed(_ keys: [Key]) {
        let woken = state.withLock { state in
            var ids: Set<UInt64> = []
            for key in keys { ids.formUnion(state.byKey[key] ?? []) }
            return ids.compactMap { state.signal($0) }
        }
        wake(woken)
    }

    /// Anything may have changed.
    func changedUnknown() {
        wake(state.withLock { state in state.waiters.keys.compactMap { state.signal($0) } })
    }

    private func wake(_ woken: [CheckedContinuation<Waking, Never>]) {
        let window = Self.window(for: woken.count)
        for (index, continuation) in woken.enumerated() {
            let delay = index < Self.wokenAtOnce ? .zero : window * Double.random(in: 0..<1)
            continuation.resume(returning: Waking(outcome: .changed, delay: delay))
        }
    }

    /// Over how long the wakings of so many are spread.
    static func window(for count: Int) -> Duration {
        guard count > wokenAtOnce else { return .zero }
        return min(longestDelay, .seconds(1) * count / wokenInSecond)
    }

    /// Ends all waiting: the process stops.
    package func close() {
        let ended = state.withLock { state in
            state.isClosed = true
            return state.waiters.keys.compactMap { state.unpark($0) }
        }
        for continuation in ended { continuation.resume(returning: Waking(outcome: .ended)) }
    }

    /// The next hint for this waiter.
    fileprivate func next(_ id: UInt64) async -> Waking {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let outcome = state.withLock { $0.park(id, continuation) }
                if let outcome { continuation.resume(returning: Waking(outcome: outcome)) }
                // It may have been cancelled before there was anything to end.
                if Task.isCancelled { unpark(id) }
            }
        } onCancel: {
            unpark(id)
        }
    }

    private func unpark(_ id: UInt64) {
        state.withLock { $0.unpark(id) }?.resume(returning: Waking(outcome: .ended))
    }

    fileprivate func setKeys(_ keys: Set<Key>, of id: UInt64) {
        state.withLock { $0.setKeys(keys, of: id) }
    }

    fileprivate func end(_ id: UInt64) {
        state.withLock { state in
            state.setKeys([], of: id)
            guard let waiter = state.waiters.removeValue(forKey: id) else { return }
            state.counts[waiter.sort, default: 0] -= 1
            state.hold(waiter.sort, waiter.holder, -1)
        }
    }

    /// A place among those who wait; given up when it is released.
    final class Watch: Sendable {
        private let changes: TimelineChanges
        private let id: UInt64

        fileprivate init(changes: TimelineChanges, id: UInt64) {
            self.changes = changes
            self.id = id
        }

        deinit { changes.end(id) }

        /// Waits for other things from now on.
        func set(_ keys: Set<Key>) {
            changes.setKeys(keys, of: id)
        }

        enum Outcome: Hashable, Sendable {
            /// Something of it may have changed.
            case changed
            case timedOut
            /// The process stops, or the task was cancelled.
            case ended
        }

        /// Waits for the next hint; one that came since the last call counts. For one task at a time.
        func wait(atMost time: Duration) async -> Outcome {
            await withTaskGroup(of: Outcome.self) { group in
                group.addTask { [changes, id] in
                    let waking = await changes.next(id)
                    // Cut short, it is still true.
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
                // A hint that came at the last moment, or that was still to wait, is not lost.
                if first == .timedOut, await group.next() == .changed { return .changed }
                return first
            }
        }
    }
}

extension TimelineChanges.State {
    /// Counts a place of an app, and of its user.
    fileprivate mutating func hold(_ sort: TimelineChanges.Sort, _ holder: TimelineChanges.Holder, _ change: Int) {
        var places = [TimelineChanges.Place(sort: sort, holder: TimelineChanges.Holder(app: holder.app))]
        if holder.user != nil { places.append(TimelineChanges.Place(sort: sort, holder: holder)) }
        for place in places {
            let count = held[place, default: 0] + change
            held[place] = count > 0 ? count : nil
        }
    }

    /// Notes a hint for a waiter; answers the task that waits, if one does.
    fileprivate mutating func signal(_ id: UInt64) -> CheckedContinuation<TimelineChanges.Waking, Never>? {
        guard let continuation = waiters[id]?.continuation else {
            waiters[id]?.isSignalled = true
            return nil
        }
        waiters[id]?.continuation = nil
        return continuation
    }

    /// Lets a task wait, unless there is an answer at once.
    fileprivate mutating func park(
        _ id: UInt64, _ continuation: CheckedContinuation<TimelineChanges.Waking, Never>
    ) -> TimelineChanges.Watch.Outcome? {
        guard !isClosed, let waiter = waiters[id], waiter.continuation == nil else { return .ended }
        if waiter.isSignalled {
            waiters[id]?.isSignalled = false
            return .changed
        }
        waiters[id]?.continuation = continuation
        return nil
    }

    /// Takes the task that waits.
    fileprivate mutating func unpark(_ id: UInt64) -> CheckedContinuation<TimelineChanges.Waking, Never>? {
        defer { waiters[id]?.continuation = nil }
        return waiters[id]?.continuation
    }

    fileprivate mutating func setKeys(_ keys: Set<TimelineChanges.Key>, of id: UInt64) {
        guard let old = waiters[id]?.keys else { return }
        for key in old.subtracting(keys) {
            byKey[key]?.remove(id)
            if byKey[key]?.isEmpty == true { byKey[key] = nil }
            if case .user = key { userKeys -= 1 }
        }
        for key in keys.subtracting(old) {
            byKey[key, default: []].insert(id)
            if case .user = key { userKeys += 1 }
        }
        waiters[id]?.keys = keys
    }
}
