// SPDX-License-Identifier: Apache-2.0

import Fuzzing
import KafkaClient
import Logging
import PostgresClient
import Synchronization
import WidgetEvents
import WidgetModel
import WidgetStore

/// Follows the timelines topic and keeps the highest revision of each timeline, as consumers do. Compares each message
/// with the stored row, which must have its revision or a later one: content is stored before it is published.
final class TimelineLog: Sendable {
    struct Latest: Sendable {
        let revision: Int64
        /// Content; nil for a tombstone.
        let shown: Shown?
        let place: ChaosModel.Place
    }

    private struct State {
        var latest: [TimelineID: Latest] = [:]
        var messages = 0
        var tombstones = 0
        /// Messages with a lower revision than the highest seen, which consumers ignore.
        var ignored = 0
        /// Next offsets after the compared messages.
        var next: [TopicPartition: Int64] = [:]
    }

    /// A decoded message.
    private struct Message {
        let id: TimelineID
        let revision: Int64
        let shown: Shown?
        let place: ChaosModel.Place
        let timestampMilliseconds: Int64
    }

    private let state = Mutex(State())
    private let consumer: KafkaConsumer
    private let kafka: ChaosKafka
    private let pool: PostgresPool
    private let report: ChaosReport

    init(kafka: ChaosKafka, pool: PostgresPool, report: ChaosReport, logger: Logger) throws {
        self.kafka = kafka
        self.pool = pool
        self.report = report
        consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(
                kafka: kafka.configuration, group: "\(kafka.group)-reader"),
            logger: logger)
    }

    var latest: [TimelineID: Latest] { state.withLock { $0.latest } }

    var counts: (messages: Int, tombstones: Int, ignored: Int) {
        state.withLock { ($0.messages, $0.tombstones, $0.ignored) }
    }

    func isAtEnd() async -> Bool {
        await kafka.hasNothing(beyond: state.withLock { $0.next }, of: [kafka.topics.timelines])
    }

    func run() async throws {
        var next: [TopicPartition: Int64] = [:]
        try await consumer.assignAll(of: [kafka.topics.timelines], others: .at(0))
        for try await event in consumer.events {
            switch event {
            case .batch(let batch):
                var messages: [Message] = []
                for index in 0..<batch.count {
                    next[batch.topicPartition(index)] = batch.records[index].offset + 1
                    if let message = message(batch, index) { messages.append(message) }
                }
                keep(messages)
                try await compare(messages)
                state.withLock { [next] in $0.next = next }
            case .offsetOutOfRange(let partition, let offset):
                report.violated(.publishedIsStored, "the checker cannot read \(partition) at \(offset): it fell behind")
            case .otherLog: break
            case .unreadable(let partition, let offset, let reason):
                report.violated(.publishedIsStored, "the checker cannot read \(partition) at \(offset): \(reason)")
            case .advanced(let ends):
                next.merge(ends) { max($0, $1) }
                state.withLock { [next] in $0.next = next }
            case .error, .interrupted: break
            }
        }
    }

    func close() async { await consumer.shutdown() }

    private func message(_ batch: KafkaBatch, _ index: Int) -> Message? {
        let record = batch.records[index]
        let place = ChaosModel.Place(topic: batch.topic(index), partition: record.partition, offset: record.offset)
        guard let key = batch.key(index), let id = TimelineID(bytes: batch.bytes[key]),
            let header = batch.header(index, named: "freshet-revision"),
            let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self))
        else {
            report.violated(.publishedIsStored, "\(place): no timeline or no revision")
            return nil
        }
        var shown: Shown?
        if let value = batch.value(index) {
            do {
                let event = try TimelineUpdatedEvent(data: batch.bytes, in: value)
                guard event.timeline == id, event.revision == revision, event.identity.id == id else {
                    report.violated(.publishedIsStored, "\(place): key, headers and data disagree")
                    return nil
                }
                shown = try Shown(content: event.content, of: id)
            } catch {
                report.violated(.wholeTimelines, "\(place): published timeline \(id) \(error)")
                return nil
            }
        }
        return Message(
            id: id, revision: revision, shown: shown, place: place,
            timestampMilliseconds: record.timestampMilliseconds)
    }

    private func keep(_ messages: [Message]) {
        state.withLock { state in
            for message in messages {
                state.messages += 1
                if message.shown == nil { state.tombstones += 1 }
                if let known = state.latest[message.id], known.revision > message.revision {
                    state.ignored += 1
                    continue
                }
                state.latest[message.id] = Latest(
                    revision: message.revision, shown: message.shown, place: message.place)
            }
        }
    }

    /// Compares a message with the stored row; waits while the database is down.
    private func compare(_ messages: [Message]) async throws {
        // A failover loses what was stored at last and is published already; it is fetched and published again.
        let updates = messages.filter { $0.shown != nil && !report.isOfLostHistory($0.timestampMilliseconds) }
        guard !updates.isEmpty else { return }
        var rows: [StoredContent.Row]?
        while rows == nil {
            do {
                rows = try await pool.query(StoredContent(ids: updates.map(\.id)))
            } catch {
                if Task.isCancelled { return }
                try await Task.sleep(for: .milliseconds(100))
            }
        }
        let stored = Dictionary((rows ?? []).map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        for message in updates {
            report.checked(.publishedIsStored)
            // The timeline has been collected since.
            guard let row = stored[message.id] else { continue }
            let revision = row.revision
            guard let content = row.content else {
                // The timeline has been collected and placed again since, so its row is younger than the message.
                if row.placedAt.milliseconds > message.timestampMilliseconds { continue }
                // Or the worker stopped between storing and publishing: consumers ignore what follows a tombstone.
                if state.withLock({ $0.latest[message.id]?.revision ?? 0 > message.revision }) { continue }
                report.violated(
                    .publishedIsStored,
                    "\(message.place): timeline \(message.id) revision \(message.revision) is published, nothing is stored"
                )
                continue
            }
            if revision > message.revision { continue }
            let shown = try? Shown(content: Array(content.utf8), of: message.id)
            guard shown != message.shown else { continue }
            report.violated(
                .publishedIsStored,
                "\(message.place): timeline \(message.id) revision \(message.revision) is published with "
                    + "\(message.shown.map { "\($0.version) \($0.dates)" } ?? "-"), stored is revision \(revision) with "
                    + "\(shown.map { "\($0.version) \($0.dates)" } ?? "-")")
        }
    }
}

extension Timestamp {
    /// Milliseconds since 1970.
    var milliseconds: Int64 { microseconds / 1_000 }
}
