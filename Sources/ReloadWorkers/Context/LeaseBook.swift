import Synchronization
import WidgetModel
import WidgetStore

/// A message of this process that was acknowledged.
struct PublishedTimeline: Sendable {
    let row: Int64
    let id: TimelineID
    let revision: Int64
}

/// A timeline of a list that needs no more work under this lease.
struct SettledTimeline: Sendable {
    let list: ListHold
    let row: Int64
    /// Content was stored, whether or not it was published.
    var isStored = false
    var published: PublishedTimeline?
    /// The list goes back and is ready after this delay, for the timeline was not worked on after all.
    var returnDelay: Duration?
}

/// A list all of whose timelines are settled.
struct ClosedList: Sendable {
    let list: LeasedList
    let leaseEnds: Duration
    let published: [PublishedTimeline]
    let hasStored: Bool
    /// The list goes back after this delay instead of being ended.
    let returnDelay: Duration?
}

/// A timeline of a list that was in flight through another list: it is to be read and decided again.
struct WaitingTimeline: Sendable {
    let list: LeasedList
    let leaseEnds: Duration
    let row: Int64
}

/// The lists that this process holds and the timelines of them that are under way.
final class LeaseBook: Sendable {
    private struct Entry {
        let list: LeasedList
        let leaseEnds: Duration
        var open: Int
        var published: [PublishedTimeline] = []
        var hasStored = false
        var returnDelay: Duration?

        /// Settles a timeline of the list; answers whether it was the last.
        mutating func settle(_ timeline: SettledTimeline) -> Bool {
            open -= 1
            hasStored = hasStored || timeline.isStored
            if let timeline = timeline.published { published.append(timeline) }
            if let delay = timeline.returnDelay { returnDelay = max(returnDelay ?? .zero, delay) }
            return open == 0
        }

        var closed: ClosedList {
            ClosedList(
                list: list, leaseEnds: leaseEnds, published: published, hasStored: hasStored, returnDelay: returnDelay)
        }
    }

    private struct State {
        /// By list and lease: a list whose lease ends here may be claimed by the same process before all of it is settled.
        var entries: [ListHold: Entry] = [:]
        /// Rows that are being worked on.
        var busy: Set<Int64> = []
        /// Lists that wait for a busy row.
        var waiting: [Int64: [ListHold]] = [:]
        var open = 0
        var reserved = 0
        var isAwaited = false
    }

    private let state = Mutex(State())
    /// Told when there is room that the claim loop waits for.
    private let signal: WorkSignal
    /// Told whenever lists close.
    private let changes = WorkSignal()

    init(signal: WorkSignal) {
        self.signal = signal
    }

    /// Timelines that are claimed and not settled, and those that room is reserved for.
    var held: Int { state.withLock { $0.open + $0.reserved } }

    /// Reserves room for timelines that are about to be handed over; false: there is none.
    func reserve(_ count: Int, limit: Int) -> Bool {
        state.withLock { state in
            guard state.open + state.reserved + count <= limit else { return false }
            state.reserved += count
            return true
        }
    }

    func unreserve(_ count: Int) {
        state.withLock { $0.reserved -= count }
    }

    /// Takes lists in. Answers them with the timelines that can be decided now, and those that have none at all.
    func enter(_ lists: [LeasedList], leaseEnds: Duration) -> (ready: [LeasedList], closed: [ClosedList]) {
        state.withLock { state in
            var ready: [LeasedList] = []
            var closed: [ClosedList] = []
            for list in lists {
                var bare = list
                bare.timelines = []
                let entry = Entry(list: bare, leaseEnds: leaseEnds, open: list.timelines.count)
                guard entry.open > 0 else {
                    closed.append(entry.closed)
                    continue
                }
                state.entries[list.hold] = entry
                state.open += entry.open
                let free = list.timelines.filter { timeline in
                    if state.busy.insert(timeline.row).inserted { return true }
                    state.waiting[timeline.row, default: []].append(list.hold)
                    return false
                }
                guard !free.isEmpty else { continue }
                bare.timelines = free
                ready.append(bare)
            }
            return (ready, closed)
        }
    }

    /// Settles timelines. Answers the lists that are closed by it, and timelines that waited for these rows.
    func settle(_ settled: [SettledTimeline]) -> (closed: [ClosedList], waiting: [WaitingTimeline]) {
        guard !settled.isEmpty else { return ([], []) }
        var isAwaited = false
        let result: (closed: [ClosedList], waiting: [WaitingTimeline]) = state.withLock { state in
            var closed: [ClosedList] = []
            var waiting: [WaitingTimeline] = []
            for timeline in settled {
                if let lists = state.waiting[timeline.row], let next = lists.first, let entry = state.entries[next] {
                    // The row stays busy, now for the list that waited.
                    state.waiting[timeline.row] = lists.count > 1 ? Array(lists.dropFirst()) : nil
                    waiting.append(WaitingTimeline(list: entry.list, leaseEnds: entry.leaseEnds, row: timeline.row))
                } else {
                    state.busy.remove(timeline.row)
                }
                // In place: a copy of the entry would copy what its list has published, for each timeline.
                guard let isClosed = state.entries[timeline.list]?.settle(timeline) else { continue }
                state.open -= 1
                if isClosed, let entry = state.entries.removeValue(forKey: timeline.list) {
                    closed.append(entry.closed)
                }
            }
            isAwaited = state.isAwaited
            state.isAwaited = false
            return (closed, waiting)
        }
        if isAwaited { signal.signal(.timelines) }
        if !result.closed.isEmpty { changes.signal(.timelines) }
        return result
    }

    /// Tells the claim loop of room, if it waits for some.
    func roomFreed() {
        let isAwaited = state.withLock { state in
            defer { state.isAwaited = false }
            return state.isAwaited
        }
        if isAwaited { signal.signal(.timelines) }
    }

    /// Has the signal come, or not, when timelines are settled or a request has ended.
    func awaitRoom(_ isAwaited: Bool) {
        state.withLock { $0.isAwaited = isAwaited }
    }

    /// Waits until nothing is under way, but not longer than `limit`; answers whether nothing is.
    ///
    /// - Throws: `CancellationError`.
    func drained(within limit: Duration, clock: WorkerClock) async throws -> Bool {
        try await clock.withLimit(limit) { [self] in
            while true {
                let mark = changes.mark(.timelines)
                if state.withLock({ $0.entries.isEmpty }) { return true }
                try await changes.wait(past: mark)
            }
        } ?? false
    }

    /// Lists that are still open, which nobody will work on any more, and the number of timelines that are open in them.
    func abandon() -> (lists: [ClosedList], timelines: Int) {
        state.withLock { state in
            defer { state = State() }
            return (state.entries.values.map(\.closed), state.open)
        }
    }
}
