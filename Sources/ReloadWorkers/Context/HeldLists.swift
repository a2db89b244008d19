import Synchronization
import WidgetModel
import WidgetStore

/// An acknowledged message of this process.
struct PublishedTimeline: Sendable {
    let row: Int64
    let id: TimelineID
    let revision: Int64
}

/// A timeline of a list without further work under the lease.
struct SettledTimeline: Sendable {
    let list: ListHold
    let row: Int64
    /// Whether content was stored, published or not.
    var isStored = false
    var published: PublishedTimeline?
    /// Delay after which the list is ready again, for a timeline that was not worked on; else nil.
    var returnDelay: Duration?
}

/// A list with all timelines settled.
struct ClosedList: Sendable {
    let list: LeasedList
    let leaseEnds: Duration
    let published: [PublishedTimeline]
    let hasStored: Bool
    /// Delay of a list that goes back; nil for a list that ends.
    let returnDelay: Duration?
}

/// A timeline that was in flight through another list, to be read and decided again.
struct WaitingTimeline: Sendable {
    let list: LeasedList
    let leaseEnds: Duration
    let row: Int64
}

/// The lists that this process holds, with their timelines under way.
final class HeldLists: Sendable {
    private struct Entry {
        let list: LeasedList
        let leaseEnds: Duration
        var open: Int
        var published: [PublishedTimeline] = []
        var hasStored = false
        var returnDelay: Duration?
        /// Whether the claim is of lost history of the database.
        var isLost = false

        /// Settles a timeline of the list, and returns whether it was the last.
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
        /// By list and lease: after the end of a lease the process may claim the list again while timelines are under
        /// way.
        var entries: [ListHold: Entry] = [:]
        /// Rows under way.
        var busy: Set<Int64> = []
        /// Lists that wait for a busy row, by row.
        var waiting: [Int64: [ListHold]] = [:]
        var open = 0
        var reserved = 0
        var isAwaited = false
    }

    private let state = Mutex(State())
    /// Signalled when room comes free for which the claim loop waits.
    private let signal: WorkSignal
    /// Signalled when lists close.
    private let changes = WorkSignal()

    init(signal: WorkSignal) {
        self.signal = signal
    }

    /// Number of claimed and unsettled timelines.
    var open: Int { state.withLock { $0.open } }

    /// Number of claimed and unsettled timelines, reserved room included.
    var held: Int { state.withLock { $0.open + $0.reserved } }

    /// Reserves room for timelines to be handed over; false without room.
    func reserve(_ count: Int, limit: Int) -> Bool {
        state.withLock { state in
            guard state.open + state.reserved + count <= limit else { return false }
            state.reserved += count
            return true
        }
    }

    /// Releases reserved room, and signals it to a waiting claim loop.
    func unreserve(_ count: Int) {
        state.withLock { $0.reserved -= count }
        roomFreed()
    }

    /// Takes lists. Returns those with timelines to decide now, and those without any timeline.
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

    /// Settles timelines. Returns the lists that close, and timelines that waited for these rows.
    func settle(_ settled: [SettledTimeline]) -> (closed: [ClosedList], waiting: [WaitingTimeline]) {
        guard !settled.isEmpty else { return ([], []) }
        var isAwaited = false
        let result: (closed: [ClosedList], waiting: [WaitingTimeline]) = state.withLock { state in
            var closed: [ClosedList] = []
            var waiting: [WaitingTimeline] = []
            for timeline in settled {
                if let lists = state.waiting[timeline.row], let next = lists.first, let entry = state.entries[next] {
                    // The row stays busy for the waiting list.
                    state.waiting[timeline.row] = lists.count > 1 ? Array(lists.dropFirst()) : nil
                    waiting.append(WaitingTimeline(list: entry.list, leaseEnds: entry.leaseEnds, row: timeline.row))
                } else {
                    state.busy.remove(timeline.row)
                }
                // In place: a copy of the entry would copy its published timelines each time.
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

    /// Signals room to a waiting claim loop.
    func roomFreed() {
        let isAwaited = state.withLock { state in
            defer { state.isAwaited = false }
            return state.isAwaited
        }
        if isAwaited { signal.signal(.timelines) }
    }

    /// Enables or disables the signal when timelines are settled or a request ends.
    func awaitRoom(_ isAwaited: Bool) {
        state.withLock { $0.isAwaited = isAwaited }
    }

    /// Drops the claims with tokens up to this one: their timelines are neither fetched nor stored nor published any more,
    /// and the lists go back once what is under way has ended. Returns their number.
    func lose(through token: Int64) -> Int {
        state.withLock { state in
            var count = 0
            for (hold, entry) in state.entries where hold.lease <= token && !entry.isLost {
                state.entries[hold]?.isLost = true
                state.entries[hold]?.returnDelay = .zero
                // The next holder compares, since content may be stored and not published.
                state.entries[hold]?.hasStored = true
                count += 1
            }
            return count
        }
    }

    /// The lists of these that are held and not lost.
    func held(among holds: some Sequence<ListHold>) -> Set<ListHold> {
        state.withLock { state in Set(holds.filter { state.entries[$0].map { !$0.isLost } ?? false }) }
    }

    /// Waits until nothing is under way, at most for the limit, and returns whether that is so.
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

    /// Removes and returns the open lists, with the number of their open timelines.
    func abandon() -> (lists: [ClosedList], timelines: Int) {
        state.withLock { state in
            defer { state = State() }
            return (state.entries.values.map(\.closed), state.open)
        }
    }
}
