// SPDX-License-Identifier: Apache-2.0

import JSON
package import KafkaClient
package import Logging
import ServiceLifecycle
import Waiting
import WidgetModel

/// Reads the topics of timelines and schedules from their end and wakes waiting requests.
///
/// Messages of timelines without waiters cost only a read of the key.
package struct TimelineTail: Service, CustomStringConvertible {
    package let description = "timeline tail"
    /// Intervals of checks for new partitions, and of checks for reachable brokers.
    private static let describeInterval = Duration.seconds(30)
    private static let recheckInterval = Duration.seconds(2)

    private static let backoff = Backoff(base: .seconds(2), cap: .seconds(30))

    private let configuration: KafkaConsumerConfiguration
    private let topics: [String]
    private let changes: TimelineChanges
    private let logger: Logger

    package init(kafka: KafkaConfiguration, topics: [String], group: String, changes: TimelineChanges, logger: Logger) {
        configuration = KafkaConsumerConfiguration(kafka: kafka, group: group, maximumBatchMessages: 10_000)
        self.topics = topics
        self.changes = changes
        self.logger = logger
    }

    /// Reads until graceful shutdown or cancellation. A failed consumer is replaced after a back-off.
    package func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var failures = 0
            while !Task.isCancelled {
                do {
                    let consumer = try KafkaConsumer(configuration: configuration, logger: logger)
                    try await read(consumer) { failures = 0 }
                } catch is CancellationError {
                    break
                } catch {
                    logger.warning(
                        "cannot read the topics of timelines and schedules; waiting requests poll the database",
                        metadata: ["error": "\(error)"])
                }
                changes.set(isLive: false)
                failures += 1
                try await Task.sleep(for: Self.backoff.bound(attempt: failures))
            }
        }
        changes.set(isLive: false)
    }

    private func read(_ consumer: KafkaConsumer, succeeded: () -> Void) async throws {
        let places = try await consumer.assignAll(of: topics, others: .latest)
        succeeded()
        changes.set(isLive: true)
        // Changes before the first read message may have been missed.
        changes.notifyAll()
        try await withThrowingTaskGroup { group in
            defer { group.cancelAll() }
            group.addTask { try await watchTopic(besides: places, consumer) }
            for try await event in consumer.events {
                switch event {
                case .batch(let batch): notify(of: batch)
                case .offsetOutOfRange(let partition, _):
                    await consumer.assign([partition: .latest])
                    changes.notifyAll()
                case .unreadable(let partition, let offset, let reason):
                    logger.warning(
                        "a batch of timelines cannot be read and is skipped",
                        metadata: ["partition": "\(partition)", "offset": "\(offset)", "reason": "\(reason)"])
                    await consumer.assign([partition: .latest])
                    changes.notifyAll()
                case .error(let error):
                    logger.debug("timeline tail", metadata: ["error": "\(error)"])
                    if error.isConnectionLoss { changes.set(isLive: false) }
                case .interrupted, .advanced, .otherLog: break
                }
            }
        }
        await consumer.shutdown()
    }

    /// Reads added partitions from their beginning, and detects reachable brokers after a loss of connection. Returns
    /// when cancelled.
    private func watchTopic(besides places: [TopicPartition], _ consumer: KafkaConsumer) async throws {
        var known = Set(places)
        var described = ContinuousClock.now
        while true {
            try await Task.sleep(for: Self.recheckInterval)
            guard !changes.isLive || described.duration(to: .now) >= Self.describeInterval else { continue }
            described = .now
            let admin = consumer.admin(timeout: .seconds(5))
            let found = try? await admin.partitions(of: topics).values.flatMap { try $0.get() }
            let wasLive = changes.isLive
            changes.set(isLive: found != nil)
            if found != nil, !wasLive { changes.notifyAll() }
            let added = (found ?? []).filter { known.insert($0).inserted }
            await consumer.assign(Dictionary(added.map { ($0, .earliest) }) { $1 })
        }
    }

    private func notify(of batch: KafkaBatch) {
        let wantsUsers = changes.wantsUsers
        var keys: [TimelineChanges.Key] = []
        for index in 0..<batch.count {
            guard let key = batch.key(index), let id = TimelineID(bytes: batch.bytes[key]) else { continue }
            keys.append(.timeline(id))
            if wantsUsers, let value = batch.value(index), let owner = Self.owner(in: batch.bytes, value) {
                keys.append(.user(app: owner.app, user: owner.user))
            }
        }
        changes.notify(keys)
    }

    /// Owner of the timeline in a message; nil for a shared one.
    static func owner(in bytes: [UInt8], _ value: Range<Int>) -> (app: String, user: String)? {
        var reader = JSONReader(bytes, in: value)
        var app: String?
        var user: String?
        do throws(JSONError) {
            try reader.beginObject()
            while let key = try reader.nextKey() {
                switch key {
                case "app": app = try reader.string()
                case "user": user = try reader.string()
                default: try reader.skip()
                }
            }
        } catch {
            return nil
        }
        guard let app, let user else { return nil }
        return (app, user)
    }
}
