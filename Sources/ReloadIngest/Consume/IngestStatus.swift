// SPDX-License-Identifier: Apache-2.0

package import KafkaClient
import Metrics
import Synchronization
import WidgetModel

/// Obstacles that keep ingest from reading all its partitions. Other parts can add reasons with ``set(_:for:)``.
package final class IngestStatus: Sendable {
    private enum Subject: Hashable {
        case consumer
        case topic(String)
        case partition(TopicPartition)
        case named(String)

        /// Sort key of the obstacle.
        var order: (Int, String, Int32) {
            switch self {
            case .named(let name): (0, name, 0)
            case .consumer: (1, "", 0)
            case .topic(let topic): (2, topic, 0)
            case .partition(let place): (3, place.topic, place.partition)
            }
        }
    }

    /// Reasons, each with the partition to read to see whether the obstacle is gone; nil if something else shows it.
    private let obstacles = Mutex<[Subject: (reason: String, probe: TopicPartition?)]>([:])
    private let databaseError = Mutex<String?>(nil)

    init() {}

    /// Descriptions of the obstacles.
    package var reasons: [String] {
        obstacles.withLock { $0 }.sorted { $0.key.order < $1.key.order }.map(\.value.reason)
    }

    /// Sets a reason of another part, such as a halt; nil removes it.
    package func set(_ reason: String?, for name: String) {
        obstacles.withLock { $0[.named(name)] = reason.map { ($0, nil) } }
    }

    /// Database error of the current batch; nil for none.
    package var blockedBy: String? {
        get { databaseError.withLock { $0 } }
        set { databaseError.withLock { $0 = newValue } }
    }

    // MARK: Events

    /// Records that the consumer has failed and will be replaced.
    func recordConsumerFailure(_ error: any Error) {
        obstacles.withLock { obstacles in
            obstacles = obstacles.filter { if case .named = $0.key { true } else { false } }
            obstacles[.consumer] = (Self.reason(error), nil)
        }
    }

    /// Records an error from which librdkafka recovers once its cause is fixed.
    func record(_ error: KafkaError) {
        guard let subject = Self.subject(error) else { return }
        var probe: TopicPartition?
        if case .topic(let topic) = subject, let partition = error.context.partition {
            probe = TopicPartition(topic: topic, partition: partition)
        }
        obstacles.withLock { [probe] in $0[subject] = (Self.reason(error), probe) }
    }

    /// Records that these partitions are no longer stopped, or no longer this process's.
    func clearStall(of partitions: some Sequence<TopicPartition>) {
        obstacles.withLock { obstacles in
            for partition in partitions { obstacles[.partition(partition)] = nil }
        }
    }

    /// Records that the brokers answer this process.
    func clearConsumerObstacle() {
        obstacles.withLock { $0[.consumer] = nil }
    }

    /// Records that these partitions have been assigned, or that events from them have been applied.
    func clearObstacles(of partitions: some Sequence<TopicPartition>) {
        obstacles.withLock { obstacles in
            guard !obstacles.isEmpty else { return }
            obstacles[.consumer] = nil
            for partition in partitions {
                obstacles[.topic(partition.topic)] = nil
                obstacles[.partition(partition)] = nil
            }
        }
    }

    /// Records that a partition is stopped, and returns whether the reason is new.
    func recordStall(of partition: TopicPartition, reason: String) -> Bool {
        obstacles.withLock { $0.updateValue((reason, nil), forKey: .partition(partition))?.reason } != reason
    }

    /// Number of partitions that stay stopped until their position is set.
    package var stalledPartitions: Int {
        obstacles.withLock { obstacles in
            obstacles.keys.count { if case .partition = $0 { true } else { false } }
        }
    }

    /// Topics that could not be read, each represented by a partition to try.
    var probes: [TopicPartition] { obstacles.withLock { $0.values.compactMap(\.probe) } }

    func clearObstacle(ofTopic topic: String) {
        obstacles.withLock { $0[.topic(topic)] = nil }
    }

    // MARK: Descriptions

    private static func subject(_ error: KafkaError) -> Subject? {
        switch error.code {
        case .clusterAuthorizationFailed, .authenticationFailed:
            .consumer
        case .topicAuthorizationFailed, .unknownTopicOrPartition:
            error.context.topic.map { .topic($0) }
        default:
            // Transient, or covered by the readiness check of the brokers.
            nil
        }
    }

    private static func reason(_ error: any Error) -> String {
        guard let error = error as? KafkaError else { return "the Kafka consumer failed: \(error)" }
        let topic = error.context.topic ?? "?"
        return switch error.code {
        case .topicAuthorizationFailed:
            "the brokers do not let these credentials read the topic \(topic) (READ on the topic is needed)"
        case .unknownTopicOrPartition:
            "the topic \(topic) is not there: create it"
        default:
            error.description
        }
    }
}

/// Policy for a partition whose next offset is not in the log.
package enum OffsetOutOfRangePolicy: String, CaseIterable, Sendable {
    /// Stops the partition until its position is set.
    case stop
    /// Continues at the oldest message in the log.
    case earliest
}

/// A batch at the position of a partition that cannot be read.
package struct UnreadableBatch: Equatable, Sendable {
    package let partition: TopicPartition
    package let offset: Int64
    package let reason: String

    package init(partition: TopicPartition, offset: Int64, reason: String) {
        (self.partition, self.offset, self.reason) = (partition, offset, reason)
    }

    package var explanation: String { "\(partition): the batch at offset \(offset) cannot be read (\(reason))" }

    /// Command with which the partition continues behind the batch.
    package var command: String { "freshet positions set \(partition.topic) \(partition.partition) readable" }
}

/// A stored position that is not in the log, and the cause.
package struct LogGap: Equatable, Sendable {
    package enum Cause: Equatable, Sendable {
        /// Retention has removed unread events, at most this many.
        case retention(lost: Int64)
        /// The log ends before the position: the topic was recreated or has lost its end.
        case beyondEnd
        /// The log has another message at the offset than the one that was applied: the topic was recreated.
        case otherLog
        /// The log has the offset.
        case none
        /// The brokers did not report the bounds of the log.
        case unknown
    }

    package let partition: TopicPartition
    /// The expected next offset.
    package let offset: Int64
    /// First and end offset of the log; nil if the brokers did not report them.
    package var bounds: Range<Int64>?
    /// Whether the log has another message at ``offset`` than the one that was applied last.
    package let isOtherLog: Bool

    package init(partition: TopicPartition, offset: Int64, bounds: Range<Int64>?, isOtherLog: Bool = false) {
        (self.partition, self.offset, self.bounds) = (partition, offset, bounds)
        self.isOtherLog = isOtherLog
    }

    package var cause: Cause {
        if isOtherLog { return .otherLog }
        guard let bounds else { return .unknown }
        if offset < bounds.lowerBound { return .retention(lost: bounds.lowerBound - offset) }
        return offset > bounds.upperBound ? .beyondEnd : .none
    }

    /// Command with which the partition continues.
    package var command: String { "freshet positions set \(partition.topic) \(partition.partition) earliest" }

    /// Command with which the partition of another log continues at its position.
    private var skipping: String { "freshet positions set \(partition.topic) \(partition.partition) \(offset + 1)" }

    /// Description of the cause.
    package var explanation: String {
        switch cause {
        case .retention(let lost):
            """
            retention has removed \(lost) offsets from \(offset) on before they were read; the log begins at \
            \(offset + lost)
            """
        case .beyondEnd:
            """
            the position \(offset) lies beyond the end of the log (\(bounds?.upperBound ?? 0)): the topic was created anew, or \
            has lost its tail
            """
        case .otherLog:
            """
            the log has another message at the offset \(offset) than the one that was applied last: the topic was created \
            anew, or its log was replaced; \(skipping) keeps the position, and skips the messages before it
            """
        case .none: "the log has the offset \(offset) again"
        case .unknown: "the log does not have the offset \(offset)"
        }
    }
}

/// Received messages that are not applied yet, for the lag of each topic.
final class PendingMessages: Sendable {
    /// The consumed topics.
    private let topics: Set<String>
    /// Messages of the current batch by topic, their number and the time of the oldest one in milliseconds since 1970;
    /// and the time since which a topic has had a lag but no messages in the current batch.
    private let state = Mutex<
        (atHand: [String: (count: Int, oldest: Int64)], behindSince: [String: ContinuousClock.Instant])
    >(([:], [:]))

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
    func end() {
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
        .milliseconds(max(0, Timestamp.now().microseconds / 1_000 - time))
    }
}

extension IngestService {
    /// Sets the gauges of the lag, without a request to the brokers.
    package func sampleLag() async {
        pending.sample(await lag() ?? [:], metrics)
    }
}
