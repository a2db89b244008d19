import Synchronization
import WidgetModel

/// Wakes those who wait for timelines to change: one for the whole process, told by one reader of the timelines topic.
///
/// A waking is a hint: who is woken reads the database. Any number of hints before somebody looks are one, and nobody
/// is waited for.
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

    fileprivate struct Waiter {
        let sort: Sort
        var keys: Set<Key>
        let continuation: AsyncStream<Void>.Continuation
    }

    fileprivate struct State {
        var waiters: [UInt64: Waiter] = [:]
        var byKey: [Key: Set<UInt64>] = [:]
        var counts: [Sort: Int] = [:]
        var userKeys = 0
        var next: UInt64 = 0
        var isClosed = false
        var isLive = false
    }

    private let limits: Limits
    private let state = Mutex(State())

    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Nil when there are too many of the sort already, or the process stops.
    func watch(_ sort: Sort, _ keys: Set<Key>) -> Watch? {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let id: UInt64? = state.withLock { state in
            let limit = sort == .poll ? limits.polls : limits.streams
            guard !state.isClosed, state.counts[sort, default: 0] < limit else { return nil }
            state.next += 1
            state.counts[sort, default: 0] += 1
            state.waiters[state.next] = Waiter(sort: sort, keys: [], continuation: continuation)
            state.setKeys(keys, of: state.next)
            return state.next
        }
        return id.map { Watch(changes: self, id: $0, stream: stream) }
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
            return ids.compactMap { state.waiters[$0]?.continuation }
        }
        for continuation in woken { continuation.yield() }
    }

    /// Anything may have changed.
    func changedUnknown() {
        let woken = state.withLock { $0.waiters.values.map(\.continuation) }
        for continuation in woken { continuation.yield() }
    }

    /// Ends all waiting: the process stops.
    package func close() {
        let ended = state.withLock { state in
            state.isClosed = true
            return state.waiters.values.map(\.continuation)
        }
        for continuation in ended { continuation.finish() }
    }

    fileprivate func setKeys(_ keys: Set<Key>, of id: UInt64) {
        state.withLock { $0.setKeys(keys, of: id) }
    }

    fileprivate func end(_ id: UInt64) {
        state.withLock { state in
            state.setKeys([], of: id)
            guard let waiter = state.waiters.removeValue(forKey: id) else { return }
            state.counts[waiter.sort, default: 0] -= 1
        }
    }

    /// A place among those who wait; given up when it is released.
    final class Watch: Sendable {
        private let changes: TimelineChanges
        private let id: UInt64
        private let stream: AsyncStream<Void>

        fileprivate init(changes: TimelineChanges, id: UInt64, stream: AsyncStream<Void>) {
            self.changes = changes
            self.id = id
            self.stream = stream
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
                group.addTask { [stream] in
                    for await _ in stream { return .changed }
                    return .ended
                }
                group.addTask {
                    do {
                        try await Task.sleep(for: time)
                        return .timedOut
                    } catch {
                        return .ended
                    }
                }
                defer { group.cancelAll() }
                return await group.next() ?? .ended
            }
        }
    }
}

extension TimelineChanges.State {
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
