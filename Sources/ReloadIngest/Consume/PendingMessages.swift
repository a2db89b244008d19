import KafkaClient
import Metrics
import Synchronization
import WidgetModel

/// Received messages that are not applied yet, for the lag of each topic.
final class PendingMessages: Sendable {
    private struct State {
        /// Messages of the current batch by topic: their number, and the time of the oldest one in milliseconds since
        /// 1970.
        var atHand: [String: (count: Int, oldest: Int64)] = [:]
        /// Time since which a topic has had a lag but no messages in the current batch.
        var behindSince: [String: ContinuousClock.Instant] = [:]
    }

    /// The consumed topics.
    private let topics: Set<String>
    private let state = Mutex(State())

    /// - Parameter topics: the consumed topics.
    init(topics: [String]) {
        self.topics = Set(topics)
    }

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

    /// Sets the gauges of the lag.
    ///
    /// - Parameter behind: number of messages after the last polled one, by partition.
    func sample(_ behind: [TopicPartition: Int64], _ metrics: MetricRegistry) {
        var lags: [String: Int64] = [:]
        for (place, count) in behind { lags[place.topic, default: 0] += count }
        let now = ContinuousClock.now
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
            metrics.ingestLag(topic).set(lags[topic, default: 0] + Int64(atHand?.count ?? 0))
            var age = 0.0
            if let atHand, atHand.oldest < .max { age = Self.age(since: atHand.oldest) / .seconds(1) }
            if let since { age = max(age, since.duration(to: now) / .seconds(1)) }
            metrics.ingestOldest(topic).set(age)
        }
    }

    /// - Parameter time: time of a message, in milliseconds since 1970.
    static func age(since time: Int64) -> Duration {
        .milliseconds(max(0, WallClock.now().microseconds / 1_000 - time))
    }
}

extension IngestService {
    /// Sets the gauges of the lag, without a request to the brokers.
    package func sampleLag() async {
        pending.sample(await lag() ?? [:], metrics)
    }
}
