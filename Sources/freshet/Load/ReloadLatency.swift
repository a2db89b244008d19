import Synchronization
import WidgetModel
import WidgetStore

/// Which of a scenario's figures an event belongs to.
enum LoadSeries: Sendable {
    /// Counted, but no latency is kept.
    case warmUp
    /// The stream alone.
    case alone
    /// The same stream beside what it is measured against.
    case beside
    /// What it is measured against, when that is a stream as well.
    case other
}

/// Event intended → timeline stored, for every event of the streams.
///
/// A latency is measured from the time at which the event was *to be* sent, so that a publisher that falls behind does
/// not hide the wait. Events that were folded into one reload are each served by it: a timeline that is stored for an
/// event serves all of that timeline's events up to this one's place in the partition.
final class ReloadLatency: Sendable {
    /// An event of the streams: what it is for and when it was to be sent.
    struct Event: Sendable {
        var timeline: TimelineID
        var intended: ContinuousClock.Instant
        var series: LoadSeries
    }

    private struct Pending {
        /// Events that are handed to Kafka, whose places are not known yet.
        var unacknowledged = 0
        var waiting: [(position: EventPosition, event: Event)] = []
        /// What was stored while places were unknown.
        var stores: [(cause: EventPosition, time: ContinuousClock.Instant)] = []

        var isOver: Bool { unacknowledged == 0 && waiting.isEmpty }
    }

    private struct State {
        var pending: [TimelineID: Pending] = [:]
        var histograms: [LoadSeries: LatencyHistogram] = [:]
        var sent: [LoadSeries: Int] = [:]
        var unacknowledged = 0
        var counts = Counts()
        var stored: Set<TimelineID>?

        mutating func serve(_ event: Event, at time: ContinuousClock.Instant) {
            counts.served += 1
            guard event.series != .warmUp else { return }
            histograms[event.series, default: LatencyHistogram()].record(event.intended.duration(to: time))
        }
    }

    struct Counts: Sendable, Equatable {
        /// Events handed to Kafka.
        var sent = 0
        /// Events that Kafka did not acknowledge.
        var failed = 0
        /// Events that Kafka acknowledged without saying where they are, so that their latency is not known.
        var unplaced = 0
        /// Events whose timeline was stored for them or for a later one.
        var served = 0
        /// Events that wait for that.
        var waiting: Int { sent - failed - unplaced - served }
    }

    private let state = Mutex(State())

    /// Events without an acknowledgement so far.
    var unacknowledged: Int { state.withLock { $0.unacknowledged } }
    var counts: Counts { state.withLock { $0.counts } }

    /// Events of a series that were handed to Kafka.
    func sent(in series: LoadSeries) -> Int {
        state.withLock { $0.sent[series, default: 0] }
    }

    func summary(of series: LoadSeries) -> LatencySummary {
        state.withLock { $0.histograms[series]?.summary ?? LatencySummary() }
    }

    /// Said before the events are handed to Kafka.
    func sending(_ events: [Event]) {
        state.withLock { state in
            for event in events {
                state.pending[event.timeline, default: Pending()].unacknowledged += 1
                state.sent[event.series, default: 0] += 1
            }
            state.unacknowledged += events.count
            state.counts.sent += events.count
        }
    }

    /// What became of an event that was handed over: its place, or none when it failed or Kafka does not know.
    func acknowledged(_ event: Event, at position: EventPosition?, isFailed: Bool = false) {
        state.withLock { state in
            var pending = state.pending[event.timeline] ?? Pending()
            pending.unacknowledged -= 1
            state.unacknowledged -= 1
            if let position {
                if let store = pending.stores.first(where: { $0.cause.covers(position) }) {
                    state.serve(event, at: store.time)
                } else {
                    pending.waiting.append((position, event))
                }
            } else if isFailed {
                state.counts.failed += 1
            } else {
                state.counts.unplaced += 1
            }
            if pending.unacknowledged == 0 { pending.stores = [] }
            state.pending[event.timeline] = pending.isOver ? nil : pending
        }
    }

    /// A timeline was stored, for the given event as the latest that was applied before its fetch.
    func stored(_ timeline: TimelineID, _ cause: EventPosition?) {
        let now = ContinuousClock.now
        state.withLock { state in
            state.stored?.insert(timeline)
            guard let cause, var pending = state.pending[timeline] else { return }
            let served = pending.waiting.filter { cause.covers($0.position) }
            for (_, event) in served { state.serve(event, at: now) }
            if !served.isEmpty { pending.waiting.removeAll { cause.covers($0.position) } }
            if pending.unacknowledged > 0 { pending.stores.append((cause, now)) }
            state.pending[timeline] = pending.isOver ? nil : pending
        }
    }

    // MARK: Distinct timelines

    /// From now on the distinct timelines that are stored are counted.
    func startCountingStored() {
        state.withLock { $0.stored = [] }
    }

    /// How many distinct timelines have been stored since ``startCountingStored()``.
    var distinctStored: Int { state.withLock { $0.stored?.count ?? 0 } }
}

extension EventPosition {
    /// Whether an event at this place was applied after, or is, the one at another: within a partition only.
    func covers(_ other: EventPosition) -> Bool {
        topic == other.topic && partition == other.partition && offset >= other.offset
    }
}
