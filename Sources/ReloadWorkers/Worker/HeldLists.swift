// SPDX-License-Identifier: Apache-2.0

import Synchronization
import Waiting
import WidgetModel
import WidgetStore

/// A list that this process holds, until all of its timelines have ended.
struct HeldList: Sendable {
    /// The list, without its timelines.
    let list: LeasedList
    let leaseEnds: Duration
    /// Number of its timelines under way.
    fileprivate(set) var open = 0
    /// This process's last messages for its timelines.
    fileprivate(set) var published: [TimelineRevision] = []
    /// Those of them with a timeline's first content.
    fileprivate(set) var firstPublished: [TimelineRevision] = []
    /// Whether rows may have been stored, so that the next holder of a returned list must compare.
    var mayBeStored = false
    /// Delay of a list that goes back; nil for a list that ends.
    var returnDelay: Duration?
    /// Whether the claim is of lost history of the database.
    fileprivate var isLost = false

    init(_ list: LeasedList, leaseEnds: Duration, returnDelay: Duration? = nil) {
        var bare = list
        bare.timelines = []
        (self.list, self.leaseEnds, self.returnDelay) = (bare, leaseEnds, returnDelay)
        open = list.timelines.count
    }

    /// Notes the ends of some of its timelines.
    fileprivate mutating func end(_ jobs: ArraySlice<TimelineJob>) {
        for index in jobs.indices {
            if jobs[index].mayBeStored || jobs[index].written != nil { mayBeStored = true }
            if let revision = jobs[index].published {
                if published.isEmpty { published.reserveCapacity(open) }
                let timeline = jobs[index].timeline
                published.append((row: timeline.row, id: timeline.id, revision: revision))
                if timeline.contentRevision == 0 { firstPublished += published.suffix(1) }
            }
            if let delay = jobs[index].returnDelay { returnDelay = max(returnDelay ?? .zero, delay) }
        }
        open -= jobs.count
    }

    /// Gives the list back once what is under way has ended, as its claim is of lost history.
    fileprivate mutating func lose() {
        isLost = true
        returnDelay = .zero
        // The next holder compares, since content may be stored and not published.
        mayBeStored = true
    }
}

/// The lists that this process holds, with their timelines under way.
final class HeldLists: Sendable {
    private struct State {
        /// By list and lease: after the end of a lease the process may claim the list again while timelines are under
        /// way.
        var lists: [ListHold: HeldList] = [:]
        /// Rows under way.
        var busy: Set<Int64> = []
        /// Timelines that wait for a busy row, by row.
        var waiting: [Int64: [TimelineJob]] = [:]
        var open = 0
        var reserved = 0
        /// Greatest token of lost history of the database.
        var lostThrough = Int64.min
        var isAwaited = false

        /// Ends the work on a row. Returns the timeline of the next list that waits for the row, for which it stays
        /// busy.
        mutating func release(_ row: Int64) -> TimelineJob? {
            guard !waiting.isEmpty, var others = waiting[row], !others.isEmpty else {
                busy.remove(row)
                return nil
            }
            let next = others.removeFirst()
            waiting[row] = others.isEmpty ? nil : others
            return next
        }
    }

    private let state = Mutex(State())
    /// Signalled when room comes free for which the claim loop waits.
    private let signal: Signal
    /// Signalled when lists close.
    private let changes = Signal()

    init(signal: Signal) {
        self.signal = signal
    }

    /// Number of claimed timelines under way.
    var open: Int { state.withLock { $0.open } }

    /// Number of claimed timelines under way, reserved room included.
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

    /// Takes claimed lists. Returns the timelines to decide now, and the lists without any timeline.
    ///
    /// A row that is under way through another list waits for its end.
    func enter(_ claims: [(claim: ListClaim, timelines: [ClaimedTimeline])]) -> (
        ready: [TimelineJob], closed: [HeldList]
    ) {
        state.withLock { state in
            var ready: [TimelineJob] = []
            ready.reserveCapacity(claims.reduce(0) { $0 + $1.timelines.count })
            var closed: [HeldList] = []
            for (claim, timelines) in claims {
                var list = HeldList(claim.list, leaseEnds: claim.leaseEnds)
                list.open = timelines.count
                if claim.list.hold.lease <= state.lostThrough { list.lose() }
                guard list.open > 0 else {
                    closed.append(list)
                    continue
                }
                state.lists[claim.list.hold] = list
                state.open += list.open
                for timeline in timelines {
                    let job = TimelineJob(timeline, of: claim)
                    if state.busy.insert(timeline.row).inserted {
                        ready.append(job)
                    } else {
                        state.waiting[timeline.row, default: []].append(job)
                    }
                }
            }
            return (ready, closed)
        }
    }

    /// Ends the work on timelines. Returns the lists that close, and timelines that waited for these rows: they are to
    /// be read and decided again.
    func end(_ jobs: [TimelineJob]) -> (closed: [HeldList], waiting: [TimelineJob]) {
        guard !jobs.isEmpty else { return ([], []) }
        var isAwaited = false
        let result: (closed: [HeldList], waiting: [TimelineJob]) = state.withLock { state in
            var closed: [HeldList] = []
            var waiting: [TimelineJob] = []
            for range in jobs.runs(of: \.claim) {
                for index in range {
                    if let next = state.release(jobs[index].timeline.row) { waiting.append(next) }
                }
                guard let place = state.lists.index(forKey: jobs[range.lowerBound].claim.list.hold) else { continue }
                state.open -= range.count
                // In place: a copy of the list would copy its published timelines each time.
                state.lists.values[place].end(jobs[range])
                if state.lists.values[place].open == 0 { closed.append(state.lists.remove(at: place).value) }
            }
            isAwaited = state.isAwaited
            state.isAwaited = false
            return (closed, waiting)
        }
        if isAwaited { signal.signal() }
        if !result.closed.isEmpty { changes.signal() }
        return result
    }

    /// Signals room to a waiting claim loop.
    func roomFreed() {
        let isAwaited = state.withLock { state in
            defer { state.isAwaited = false }
            return state.isAwaited
        }
        if isAwaited { signal.signal() }
    }

    /// Enables or disables the signal when timelines or a request end.
    func awaitRoom(_ isAwaited: Bool) {
        state.withLock { $0.isAwaited = isAwaited }
    }

    /// Drops the claims with tokens up to this one: their timelines are neither fetched nor stored nor published any
    /// more, and the lists go back once what is under way has ended. Returns their number.
    func lose(through token: Int64) -> Int {
        state.withLock { state in
            var count = 0
            // A claim that was answered before, and is entered later, is lost as well.
            state.lostThrough = max(state.lostThrough, token)
            for (hold, list) in state.lists where hold.lease <= token && !list.isLost {
                state.lists[hold]?.lose()
                count += 1
            }
            return count
        }
    }

    /// Removes and returns timelines whose claims are not held: of lost history of the database, or abandoned.
    func removeLost(from jobs: inout [TimelineJob]) -> [TimelineJob] {
        state.withLock { state in
            let lost = jobs.runs(of: \.claim).filter { range in
                state.lists[jobs[range.lowerBound].claim.list.hold].map(\.isLost) ?? true
            }
            let removed = lost.flatMap { jobs[$0] }
            for range in lost.reversed() { jobs.removeSubrange(range) }
            return removed
        }
    }

    /// Waits until nothing is under way, at most for the limit, and returns whether that is so.
    ///
    /// - Throws: `CancellationError`.
    func drained(within limit: Duration, clock: WorkerClock) async throws -> Bool {
        try await withTimeLimit(limit, clock: clock.clock) { [self] in
            while true {
                let version = changes.version
                if state.withLock({ $0.lists.isEmpty }) { return true }
                try await changes.wait(past: version)
            }
        } ?? false
    }

    /// Removes and returns the open lists.
    func abandon() -> [HeldList] {
        state.withLock { state in
            defer { state = State() }
            return Array(state.lists.values)
        }
    }
}
