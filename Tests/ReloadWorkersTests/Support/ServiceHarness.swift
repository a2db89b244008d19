// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import ServiceLifecycle
import Synchronization
import TestSupport
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// A worker service that shares the database and provider of a test's worker.
struct TestService: Sendable {
    let service: WorkerService
    let signals = WorkSignals()
    let metrics = MetricRegistry()
    let handOver = LocalHandOver()

    init(
        beside worker: TestWorker, publisher: KafkaProducer? = nil,
        fetcher: (any ProviderFetching)? = nil,
        configure: (inout WorkerConfiguration) -> Void = { _ in }
    ) {
        var configuration = worker.context.configuration
        configuration.worker = WorkerConfiguration().worker
        configure(&configuration)
        service = WorkerService(
            configuration: configuration, pool: worker.store.pool, directory: DirectoryCache(pool: worker.store.pool),
            fetcher: fetcher ?? worker.context.fetcher,
            deliveryTimeout: publisher == nil ? worker.publisher.deliveryTimeout : Patience.delivery, signals: signals,
            metrics: metrics, handOver: handOver, logger: .silent
        ) { [recording = worker.publisher] messages in
            if let publisher { await publisher.send(messages) } else { await recording.publish(messages) }
        }
    }
}

/// Runs services while `body` runs, then stops them in order.
func serving(_ services: [TestService], _ body: () async throws -> Void) async throws {
    let group = ServiceGroup(services: services.map(\.service), logger: .silent)
    try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { try await group.run() }
        do {
            try await body()
        } catch {
            tasks.cancelAll()
            throw error
        }
        await group.triggerGracefulShutdown()
        try await tasks.waitForAll()
    }
}

extension TestStore {
    /// Waits until no timeline is stale and no list is ready or leased.
    func settles() async throws {
        try await eventually("all work is done") {
            guard try await stale() == 0 else { return false }
            return try await integer("SELECT count(*) FROM work WHERE lease IS NOT NULL OR due_at <= now()") == 0
        }
    }
}

/// The timelines topic of an embedded Kafka, read to its end on every call.
final class TimelinesTopic: Sendable {
    private let last = Mutex<[TimelineID: (revision: Int64, value: String?)]>([:])
    private let count = Mutex(0)

    /// Messages so far.
    var messages: Int { count.withLock { $0 } }

    /// Returns the last message of a timeline; nil if there is none.
    func message(of id: TimelineID) -> (revision: Int64, value: String?)? { last.withLock { $0[id] } }

    func read(_ consumer: KafkaConsumer) async throws {
        for try await event in consumer.events {
            switch event {
            case .batch(let batch):
                for index in 0..<batch.count {
                    guard let key = batch.key(index),
                        let id = TimelineID(String(decoding: batch.bytes[key], as: UTF8.self)),
                        let header = batch.header(index, named: EncodedEvent.revisionHeader),
                        let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self))
                    else { continue }
                    let value = batch.value(index).map { String(decoding: batch.bytes[$0], as: UTF8.self) }
                    last.withLock { $0[id] = (revision, value) }
                    count.withLock { $0 += 1 }
                }
            default: break
            }
        }
    }
}

/// Creates a producer on an embedded Kafka, with its timelines topic.
func withTimelinesTopic(_ body: (KafkaProducer, TimelinesTopic) async throws -> Void) async throws {
    let kafka = try EmbeddedKafka(logger: .silent)
    defer { kafka.close() }
    let name = WorkerConfiguration().topic
    try kafka.createTopic(name, partitions: 3)
    let producer = try KafkaProducer(
        configuration: kafka.configuration, deliveryTimeout: Patience.delivery, logger: .silent)
    let consumer = try KafkaConsumer(
        configuration: KafkaConsumerConfiguration(kafka: kafka.configuration, group: "test"),
        logger: .silent)
    try await consumer.assignAll(of: [name])
    let topic = TimelinesTopic()
    let result: Result<Void, any Error> = await withTaskGroup(of: Void.self) { group in
        group.addTask { try? await topic.read(consumer) }
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(producer, topic))
        } catch {
            result = .failure(error)
        }
        group.cancelAll()
        return result
    }
    await consumer.shutdown()
    await producer.shutdown()
    try result.get()
}
