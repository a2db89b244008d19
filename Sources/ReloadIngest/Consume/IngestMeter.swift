import KafkaClient
import Metrics
import Synchronization
import WidgetEvents
import WidgetModel
import WidgetStore

/// Metrics of ingest, recorded once per batch.
package final class IngestMeter: Sendable {
    private struct State {
        /// Messages of the current batch by topic: their number, and the time of the oldest one in milliseconds since
        /// 1970.
        var atHand: [String: (count: Int, oldest: Int64)] = [:]
        /// Time since which a topic has had a lag but no messages in the current batch.
        var behindSince: [String: ContinuousClock.Instant] = [:]
    }

    private let batchEvents = Recorder(label: MetricCatalogue.ingestBatchEvents.name)
    private let applySeconds = Metrics.Timer(label: MetricCatalogue.ingestApplySeconds.name)
    private let eventAge = Metrics.Timer(label: MetricCatalogue.ingestEventAge.name)
    /// The consumed topics.
    private let topics: Set<String>
    private let state = Mutex(State())

    /// - Parameter topics: the consumed topics.
    init(topics: [String]) {
        self.topics = Set(topics)
        // Every series exists from the start, so that its first increment counts as an increase.
        for type in EventType.allCases + [nil] {
            for outcome in Outcome.allCases { _ = Self.events(type, outcome) }
            for reason in WidgetIgnoredReason.allCases { _ = Self.ignored(type, reason) }
        }
        for cause in DeadLetterCause.allCases where cause != .diverted { _ = Self.deadLetters(cause) }
    }

    // MARK: Counters

    private enum Outcome: String, CaseIterable {
        case applied
        case deadLetter = "dead_letter"
        case diverted
        case dropped
    }

    /// - Parameter type: nil for an unknown type.
    private static func events(_ type: EventType?, _ outcome: Outcome) -> Counter {
        Counter(
            label: MetricCatalogue.ingestEvents.name,
            dimensions: [("type", label(type)), ("outcome", outcome.rawValue)])
    }

    private static func ignored(_ type: EventType?, _ reason: WidgetIgnoredReason) -> Counter {
        Counter(
            label: MetricCatalogue.ingestIgnored.name,
            dimensions: [("type", label(type)), ("reason", reason.rawValue)])
    }

    private static func deadLetters(_ cause: DeadLetterCause) -> Counter {
        Counter(label: MetricCatalogue.ingestDeadLetters.name, dimensions: [("cause", cause.rawValue)])
    }

    /// The type without prefix and version, such as `push.received`.
    private static func label(_ type: EventType?) -> String {
        type.map { String($0.rawValue.dropFirst("freshet.".count).dropLast(".v1".count)) } ?? "unknown"
    }

    // MARK: Batches

    /// Begins a batch, which ends with ``ended()``.
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
    func ended() {
        state.withLock { $0.atHand = [:] }
    }

    /// Records a committed transaction.
    ///
    /// - Parameters:
    ///   - items: the batch's items in the transaction.
    ///   - outcome: names the events that became dead letters, and the applied ones without effect.
    func committed(
        _ items: ArraySlice<Int>, of batch: PreparedBatch, _ fold: BatchFold, _ outcome: BatchApplier.Outcome,
        took time: Duration
    ) {
        var applied: [EventType?: Int] = [:]
        var oldest = Int64.max
        for item in items {
            applied[batch.type(item), default: 0] += 1
            let time = batch.batch.records[item].timestampMilliseconds
            if time >= 0, time < oldest { oldest = time }
        }
        for event in outcome.rejected {
            let type = batch.type(event.record)
            applied[type, default: 0] -= 1
            Self.events(type, .deadLetter).increment()
            Self.deadLetters(DeadLetterCause(code: event.code)).increment()
        }
        for (unapplied, end) in [(fold.diverted, Outcome.diverted), (fold.dropped, Outcome.dropped)] {
            for event in unapplied {
                let type = batch.type(event.record)
                applied[type, default: 0] -= 1
                Self.events(type, end).increment()
            }
        }
        for event in outcome.ignored { Self.ignored(batch.type(event.record), event.reason).increment() }
        for (type, count) in applied where count > 0 { Self.events(type, .applied).increment(by: count) }
        batchEvents.record(items.count)
        applySeconds.record(duration: time)
        if oldest < .max {
            eventAge.record(duration: .milliseconds(max(0, Self.now() - oldest)))
        }
    }

    // MARK: Lag

    /// Records the lag.
    ///
    /// - Parameter lag: number of messages after the last polled one, by partition.
    func sampled(lag behind: [TopicPartition: Int64]) {
        var lags: [String: Int64] = [:]
        for (place, count) in behind { lags[place.topic, default: 0] += count }
        let now = ContinuousClock.now
        let time = Self.now()
        for topic in topics {
            let (atHand, since) = state.withLock { state -> ((count: Int, oldest: Int64)?, ContinuousClock.Instant?) in
                // The times of messages that have not been polled are unknown, so their age counts from the first
                // sample.
                if lags[topic, default: 0] == 0 || state.atHand[topic] != nil {
                    state.behindSince[topic] = nil
                } else if state.behindSince[topic] == nil {
                    state.behindSince[topic] = now
                }
                return (state.atHand[topic], state.behindSince[topic])
            }
            Meter(label: MetricCatalogue.ingestLag.name, dimensions: [("topic", topic)])
                .set(lags[topic, default: 0] + Int64(atHand?.count ?? 0))
            var age = 0.0
            if let atHand, atHand.oldest < .max { age = Double(max(0, time - atHand.oldest)) / 1_000 }
            if let since { age = max(age, since.duration(to: now) / .seconds(1)) }
            Meter(label: MetricCatalogue.ingestOldest.name, dimensions: [("topic", topic)]).set(age)
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
