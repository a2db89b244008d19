// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import PostgresClient
import ServiceLifecycle
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// Ingest with a real database and Kafka, for one test.
struct IngestHarness: Sendable {
    let store: TestStore
    let kafka: TestKafka
    let producer: KafkaProducer
    let configuration: IngestConfiguration

    static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// Creates a harness whose topics exist but are not consumed yet.
    ///
    /// - Parameter dividing: applies every batch as one of a backlog, in two transactions if it has events of several
    ///   partitions.
    static func lend(
        partitions: Int = 4, maximumBatch: Int? = nil, audienceLimit: Int? = nil,
        deadLetters: DeadLetterLimits? = nil, dividing: Bool = false,
        _ body: (IngestHarness) async throws -> Void
    ) async throws {
        try await withStore { store in
            let defaults = IngestTopics()
            try await withKafka(
                topics: defaults.all + ["freshet.dead-letters"], partitions: partitions
            ) { kafka in
                var configuration = IngestConfiguration()
                configuration.topics.pushes = kafka.name(defaults.pushes)
                configuration.topics.appChanges = kafka.name(defaults.appChanges)
                configuration.topics.widgets = kafka.name(defaults.widgets)
                configuration.topics.donations = kafka.name(defaults.donations)
                configuration.deadLetterTopic = kafka.name("freshet.dead-letters")
                configuration.group = "ingest-\(UInt64.random(in: 0...UInt64.max))"
                configuration.memberInterval = .milliseconds(100)
                configuration.flowInterval = .milliseconds(100)
                if let deadLetters { configuration.deadLetters = deadLetters }
                if dividing { (configuration.backlog, configuration.leastDivided) = (0, 1) }
                if let maximumBatch { configuration.maximumBatch = maximumBatch }
                if let audienceLimit { configuration.audienceLimit = audienceLimit }
                let producer = try KafkaProducer(
                    configuration: kafka.configuration, deliveryTimeout: Patience.delivery, logger: quiet)
                do {
                    try await body(
                        IngestHarness(
                            store: store, kafka: kafka, producer: producer, configuration: configuration))
                } catch {
                    await producer.shutdown()
                    throw error
                }
                await producer.shutdown()
            }
        }
    }

    /// - Parameters:
    ///   - pool: Alternative connection pool for the same database.
    func service(
        on pool: PostgresPool? = nil, logger: Logger = quiet,
        onConsumer: @escaping @Sendable (KafkaConsumer) -> Void = { _ in },
        onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)? = nil,
        configure: ((inout IngestConfiguration) -> Void)? = nil, properties: [String: String] = [:],
        workers: (any HandOverReceiving)? = nil, defaults: PlacementDefaults? = nil,
        onLists: @escaping @Sendable () -> Void = {}
    ) -> IngestService {
        var configuration = configuration
        configure?(&configuration)
        let pool = pool ?? store.pool
        var kafka = kafka.configuration
        kafka.properties.merge(properties) { $1 }
        let consumer = KafkaConsumerConfiguration(
            kafka: kafka, group: configuration.group,
            maximumBatchMessages: configuration.maximumBatch)
        return IngestService(
            configuration: configuration, pool: pool, directory: DirectoryCache(pool: pool),
            logger: logger, onLists: onLists, onSweeps: {}, onDeadLetters: {}, onAssigned: {}, onDecisions: onDecisions,
            workers: workers, defaults: defaults,
            makeConsumer: {
                let made = try KafkaConsumer(configuration: consumer, logger: Self.quiet)
                onConsumer(made)
                return made
            })
    }

    /// Runs services while `body` runs, then shuts them down gracefully.
    func running(_ services: [any Service], _ body: () async throws -> Void) async throws {
        let group = ServiceGroup(services: services, logger: Self.quiet)
        let running = Task { try await group.run() }
        let result: Result<Void, any Error>
        do {
            result = .success(try await body())
        } catch {
            result = .failure(error)
        }
        await group.triggerGracefulShutdown()
        try await running.value
        try result.get()
    }

    // MARK: Publishing

    func topic(of event: FreshetEvent) -> String {
        switch event.type.topic {
        case .pushes: configuration.topics.pushes
        case .appChanges: configuration.topics.appChanges
        case .widgets: configuration.topics.widgets
        case .donations: configuration.topics.donations
        }
    }

    /// Publishes events in binary mode and waits for their acknowledgement.
    ///
    /// - Parameters:
    ///   - id: ID of a single event; nil for a random one.
    ///   - timestamp: timestamp of the messages; nil for the time of sending.
    func publish(
        _ events: [FreshetEvent], at time: Timestamp? = nil, key: String? = nil,
        handling: EventHandling = EventHandling(), id: String? = nil, partition: Int32? = nil, timestamp: Int64? = nil
    ) async throws {
        let messages = events.map { event in
            let encoded = event.encode(
                id: id ?? "e\(UInt64.random(in: 0...UInt64.max))", source: "/tests", time: time, key: key)
            return KafkaMessage(
                topic: topic(of: event), partition: partition, key: encoded.key, value: encoded.value,
                headers: (encoded.headers + handling.headers).map { KafkaHeader(name: $0.name, value: $0.value) },
                timestampMilliseconds: timestamp)
        }
        for result in await producer.send(messages) { _ = try result.get() }
    }

    func push(_ user: String, kinds: [String] = ["Purchases"], matching: WidgetConfiguration? = nil) -> FreshetEvent {
        .reload(
            ReloadRequest(
                app: TestKinds.app, audience: .user(user), kinds: KindScope(names: kinds) ?? .all,
                matching: matching, reason: .push))
    }

    /// Sum of the positions, which is the number of applied messages.
    func applied() async throws -> Int {
        try await whateverIsCut { try await appliedNow() }
    }

    /// Retries queries on connections that were cut before.
    func whateverIsCut<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        for _ in 0..<10 {
            do {
                return try await body()
            } catch {
                guard let trouble = error as? PostgresError, trouble.isRetriable else { throw error }
            }
        }
        return try await body()
    }

    private func appliedNow() async throws -> Int {
        Int(try await store.pool.query(.listPositions()).compactMap(\.nextOffset).reduce(0, +))
    }

    func waitUntilApplied(_ count: Int) async throws {
        try await eventually("\(count) messages applied") { try await applied() >= count }
    }
}
