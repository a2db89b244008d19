// SPDX-License-Identifier: Apache-2.0

import FreshetService
import Histogram
import Synchronization
import WidgetModel
import WidgetStore

/// Series of figures that an event belongs to.
enum LoadSeries: Sendable {
    /// Events that are counted, without their latencies.
    case warmUp
    /// The stream alone.
    case alone
    /// The stream beside the load that it is compared with.
    case beside
    /// The load that the stream is compared with, if it is a stream as well.
    case other
}

/// Latencies from the intended time of each event to the store of its timeline.
///
/// A latency is measured from the time at which the event was *to be* sent, so that a publisher that falls behind does
/// not hide the wait. Events that were folded into one reload are each served by it: a timeline that is stored for an
/// event serves all of that timeline's events up to this one's place in the partition. A store names a single event;
/// those of another partition or topic that were folded into it stay unmeasured, and PostgreSQL tells whether they are
/// served.
final class ReloadLatency: Sendable {
    /// An event of the streams, with its timeline and intended time.
    struct Event: Sendable {
        var timeline: TimelineID
        var intended: ContinuousClock.Instant
        var series: LoadSeries
    }

    fileprivate struct Pending {
        /// Events that are handed to Kafka, whose offsets are not known yet.
        var unacknowledged = 0
        var waiting: [(position: EventPosition, event: Event)] = []
        /// Stores while offsets were unknown; a store without a cause serves all events that were sent before it.
        var stores: [(cause: EventPosition?, time: ContinuousClock.Instant)] = []

        var isOver: Bool { unacknowledged == 0 && waiting.isEmpty }
    }

    fileprivate struct State {
        var pending: [TimelineID: Pending] = [:]
        var histograms: [LoadSeries: Histogram<UInt32>] = [:]
        var unacknowledged = 0
        var counts = Counts()
        var stored: Set<TimelineID>?
        /// Latencies since the last ``takeRecent()``.
        var recent = Histogram<UInt32>.latencies()
        var stores = 0
        var lastStore: ContinuousClock.Instant?
        /// Timelines of the events.
        var targets: Set<TimelineID> = []
        /// Offset behind the last acknowledged event of each partition.
        var ends: [InputPartition: Int64] = [:]

        mutating func note(_ position: EventPosition) {
            let partition = InputPartition(of: position)
            ends[partition] = max(ends[partition] ?? 0, position.offset + 1)
        }

        mutating func serve(_ event: Event, at time: ContinuousClock.Instant) {
            counts.served += 1
            guard event.series != .warmUp else { return }
            let latency = event.intended.duration(to: time)
            histograms[event.series, default: .latencies()].record(latency)
            recent.record(latency)
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
    private let held = Atomic(false)

    /// Whether the streams wait, because Kafka could not keep more; latencies count on.
    var isHeldUp: Bool { held.load(ordering: .relaxed) }

    func holdUp(_ isHeldUp: Bool) { held.store(isHeldUp, ordering: .relaxed) }

    /// Events without an acknowledgement so far.
    var unacknowledged: Int { state.withLock { $0.unacknowledged } }
    var counts: Counts { state.withLock { $0.counts } }

    /// Number of events that wait, by timeline: no store was seen that names them or a later event of their partition.
    var waiting: [TimelineID: Int] {
        state.withLock { $0.pending.mapValues(\.waiting.count).filter { $0.value > 0 } }
    }

    /// Distinct timelines that events were for.
    var targets: Set<TimelineID> { state.withLock { $0.targets } }
    /// Time of the last known store.
    var lastStore: ContinuousClock.Instant? { state.withLock { $0.lastStore } }

    func summary(of series: LoadSeries) -> LatencySummary {
        state.withLock { $0.histograms[series]?.summary ?? LatencySummary() }
    }

    /// Said before the events are handed to Kafka.
    func noteSending(_ events: [Event]) {
        state.withLock { state in
            for event in events {
                state.pending[event.timeline, default: Pending()].unacknowledged += 1
                state.targets.insert(event.timeline)
            }
            state.unacknowledged += events.count
            state.counts.sent += events.count
        }
    }

    /// Records an event's position in Kafka; nil: publishing failed, or its outcome is unknown.
    func noteAcknowledged(_ event: Event, at position: EventPosition?, isFailed: Bool = false) {
        state.withLock { state in
            var pending = state.pending[event.timeline] ?? Pending()
            pending.unacknowledged -= 1
            state.unacknowledged -= 1
            if let position {
                state.note(position)
                if let store = pending.stores.first(where: { $0.cause?.covers(position) ?? true }) {
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

    /// Notes that a timeline was stored for an event, the latest that was applied before its fetch.
    func noteStored(_ timeline: TimelineID, _ cause: EventPosition?) {
        noteStored(timeline, cause, servesAll: false)
    }

    /// Notes that a timeline was published for an unknown event: it serves all that wait. Exact only where a timeline
    /// has no new event while it waits for another (see ``isWaiting(_:)``).
    func notePublished(_ timeline: TimelineID) {
        noteStored(timeline, nil, servesAll: true)
    }

    private func noteStored(_ timeline: TimelineID, _ cause: EventPosition?, servesAll: Bool) {
        let now = ContinuousClock.now
        state.withLock { state in
            state.stored?.insert(timeline)
            state.stores += 1
            state.lastStore = now
            guard cause != nil || servesAll, var pending = state.pending[timeline] else { return }
            func isServed(_ position: EventPosition) -> Bool { cause?.covers(position) ?? true }
            for (position, event) in pending.waiting where isServed(position) { state.serve(event, at: now) }
            pending.waiting.removeAll { isServed($0.position) }
            if pending.unacknowledged > 0 { pending.stores.append((cause, now)) }
            state.pending[timeline] = pending.isOver ? nil : pending
        }
    }

    /// Whether an event of the timeline was sent and is not served yet.
    func isWaiting(_ timeline: TimelineID) -> Bool {
        state.withLock { $0.pending[timeline] != nil }
    }

    /// An event that was published besides the streams.
    func notePublished(at position: EventPosition) {
        state.withLock { $0.note(position) }
    }

    /// Number of acknowledged events that are not before these consumer positions: the next offset of each
    /// partition.
    func unapplied(at positions: [InputPartition: Int64]) -> Int {
        state.withLock { state in
            state.ends.reduce(0) { $0 + Int(max(0, $1.value - (positions[$1.key] ?? 0))) }
        }
    }

    // MARK: For the charts

    /// Counts so far, and the latencies since the last call.
    func takeRecent() -> (sent: Int, stores: Int, latency: LatencySummary) {
        state.withLock { state in
            defer { state.recent.reset() }
            return (state.counts.sent, state.stores, state.recent.summary)
        }
    }

    // MARK: Distinct timelines

    /// Starts to count the distinct timelines that are stored.
    func startCountingStored() {
        state.withLock { $0.stored = [] }
    }

    /// Number of distinct timelines stored since ``startCountingStored()``.
    var distinctStored: Int { state.withLock { $0.stored?.count ?? 0 } }
}

/// A partition of an input topic, by the topic's index.
struct InputPartition: Hashable, Sendable {
    var topic: Int16
    var partition: Int32
}

extension InputPartition {
    init(of position: EventPosition) { self.init(topic: position.topic, partition: position.partition) }
}

extension EventPosition {
    /// Whether an event at this place was applied after, or is, the one at another: within a partition only.
    func covers(_ other: EventPosition) -> Bool {
        InputPartition(of: self) == InputPartition(of: other) && offset >= other.offset
    }
}
