import KafkaClient
import Metrics
import Synchronization
import WidgetEvents
import WidgetModel
import WidgetStore

/// Metrics of ingest, recorded once a batch.
package final class IngestMeter: Sendable {
    /// Counters of one event type by outcome.
    private struct Outcomes: Sendable {
        let applied: Counter
        let deadLetters: Counter
        let diverted: Counter
        let ignored: [WidgetIgnoredReason: Counter]

        init(_ type: String) {
            func counter(_ outcome: String) -> Counter {
                Counter(
                    label: MetricCatalogue.ingestEvents.name, dimensions: [("type", type), ("outcome", outcome)])
            }
            (applied, deadLetters, diverted) = (counter("applied"), counter("dead_letter"), counter("diverted"))
            ignored = Dictionary(
                uniqueKeysWithValues: WidgetIgnoredReason.allCases.map {
                    let dimensions = [("type", type), ("reason", $0.rawValue)]
                    return ($0, Counter(label: MetricCatalogue.ingestIgnored.name, dimensions: dimensions))
                })
        }
    }

    private struct State {
        /// Messages of the current batch by topic: their number and the oldest one's time in milliseconds since 1970.
        var atHand: [String: (count: Int, oldest: Int64)] = [:]
        /// Time since which a topic has had a lag but no messages in the current batch.
        var behindSince: [String: ContinuousClock.Instant] = [:]
    }

    /// Counters by the index of the type; the last is for unknown types.
    private let events: [Outcomes]
    private let causes: [DeadLetterCause: Counter]
    private let batchEvents: Recorder
    private let applySeconds: Metrics.Timer
    private let eventAge: Metrics.Timer
    private let lag: [String: Meter]
    private let oldest: [String: Meter]
    private let state = Mutex(State())

    /// - Parameter topics: the consumed topics.
    init(topics: [String]) {
        events = EventType.allCases.map { Outcomes($0.metricLabel) } + [Outcomes("unknown")]
        causes = Dictionary(
            uniqueKeysWithValues: DeadLetterCause.allCases.filter { $0 != .diverted }.map {
                ($0, Counter(label: MetricCatalogue.ingestDeadLetters.name, dimensions: [("cause", $0.rawValue)]))
            })
        batchEvents = Recorder(label: MetricCatalogue.ingestBatchEvents.name)
        applySeconds = Metrics.Timer(label: MetricCatalogue.ingestApplySeconds.name)
        eventAge = Metrics.Timer(label: MetricCatalogue.ingestEventAge.name)
        func meters(_ definition: MetricDefinition) -> [String: Meter] {
            Dictionary(
                topics.map { ($0, Meter(label: definition.name, dimensions: [("topic", $0)])) },
                uniquingKeysWith: { first, _ in first })
        }
        lag = meters(MetricCatalogue.ingestLag)
        oldest = meters(MetricCatalogue.ingestOldest)
    }

    // MARK: Batches

    /// Begins a batch, which ends with ``settled()``.
    func received(_ batch: KafkaBatch) {
        var counts = Array(repeating: 0, count: batch.topics.count)
        var times = Array(repeating: Int64.max, count: batch.topics.count)
        for record in batch.records {
            let topic = Int(record.topicIndex)
            counts[topic] += 1
            if record.timestampMilliseconds >= 0, record.timestampMilliseconds < times[topic] {
                times[topic] = record.timestampMilliseconds
            }
        }
        state.withLock { state in
            for (index, topic) in batch.topics.enumerated() where counts[index] > 0 {
                state.atHand[topic] = (counts[index], times[index])
                state.behindSince[topic] = nil
            }
        }
    }

    /// Ends the current batch.
    func settled() {
        state.withLock { $0.atHand = [:] }
    }

    /// Records a committed transaction.
    ///
    /// - Parameters:
    ///   - items: the batch's items in the transaction.
    ///   - rejected: events that became dead letters.
    ///   - ignored: applied events without effect.
    func committed(
        _ items: ArraySlice<Int32>, of batch: PreparedBatch, rejected: [RejectedEvent], diverted: [RejectedEvent],
        ignored: [IgnoredEvent], took time: Duration
    ) {
        var applied = Array(repeating: 0, count: events.count)
        var oldest = Int64.max
        for item in items {
            applied[batch.typeIndex(Int(item))] += 1
            let time = batch.batch.records[Int(item)].timestampMilliseconds
            if time >= 0, time < oldest { oldest = time }
        }
        for event in rejected {
            let type = batch.typeIndex(event.record)
            applied[type] -= 1
            events[type].deadLetters.increment()
            causes[DeadLetterCause(code: event.code)]?.increment()
        }
        for event in diverted {
            let type = batch.typeIndex(event.record)
            applied[type] -= 1
            events[type].diverted.increment()
        }
        for event in ignored { events[batch.typeIndex(event.record)].ignored[event.reason]?.increment() }
        for (type, count) in applied.enumerated() where count > 0 { events[type].applied.increment(by: count) }
        batchEvents.record(items.count)
        applySeconds.recordNanoseconds(time.wholeNanoseconds)
        if oldest < .max {
            eventAge.recordNanoseconds(Duration.milliseconds(max(0, Self.now() - oldest)).wholeNanoseconds)
        }
    }

    // MARK: Lag

    /// Records the lag.
    ///
    /// - Parameter lag: messages behind the last one that was polled, by partition.
    func sampled(lag behind: [TopicPartition: Int64]) {
        var lags: [String: Int64] = [:]
        for (place, count) in behind { lags[place.topic, default: 0] += count }
        let now = ContinuousClock.now
        let time = Self.now()
        for (topic, meter) in lag {
            let (atHand, since) = state.withLock { state -> ((count: Int, oldest: Int64)?, ContinuousClock.Instant?) in
                // The times of messages that are not polled are unknown, so their age counts from the first sample.
                if lags[topic, default: 0] == 0 || state.atHand[topic] != nil {
                    state.behindSince[topic] = nil
                } else if state.behindSince[topic] == nil {
                    state.behindSince[topic] = now
                }
                return (state.atHand[topic], state.behindSince[topic])
            }
            meter.set(lags[topic, default: 0] + Int64(atHand?.count ?? 0))
            var age = 0.0
            if let atHand, atHand.oldest < .max { age = Double(max(0, time - atHand.oldest)) / 1_000 }
            if let since { age = max(age, since.duration(to: now) / .seconds(1)) }
            oldest[topic]?.set(age)
        }
    }

    /// Milliseconds since 1970, to compare with the times of messages.
    private static func now() -> Int64 { WallClock.now().microseconds / 1_000 }
}

extension IngestService {
    /// Records the lag without a request to the brokers.
    package func sampleLag() async {
        meter.sampled(lag: await lag() ?? [:])
    }
}

extension EventType {
    /// The type without prefix and version: `push.received`.
    var metricLabel: String { String(rawValue.dropFirst("freshet.".count).dropLast(".v1".count)) }

    init(_ event: FreshetEvent) {
        switch event {
        case .push: self = .pushReceived
        case .appChange: self = .appChanged
        case .operatorReload: self = .reloadRequested
        case .placed: self = .widgetPlaced
        case .configured: self = .widgetConfigured
        case .removed: self = .widgetRemoved
        case .viewed: self = .widgetViewed
        case .environmentChanged: self = .deviceEnvironmentChanged
        }
    }

    /// The type of a request with this reason.
    init(_ reason: ReloadReason) {
        switch reason {
        case .foreground, .background: self = .appChanged
        case .operator: self = .reloadRequested
        case .placed, .configured, .environment, .push, .policy: self = .pushReceived
        }
    }

    /// Its index among all types.
    var index: Int { Self.indices[self] ?? Self.allCases.count }

    private static let indices = Dictionary(uniqueKeysWithValues: allCases.enumerated().map { ($1, $0) })
}

extension Duration {
    fileprivate var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : product + attoseconds / 1_000_000_000
    }
}
