// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import Logging
import SampleProvider
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import FreshetClient

extension Tag {
    @Tag static var process: Self
}

let quietLogger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// A database with the bank's kinds, Kafka with Freshet's topics, and the sample provider, shared by processes of
/// `freshet`.
struct Installation: Sendable {
    static let app = "com.example.bank"

    let store: TestStore
    let kafka: TestKafka
    let providerPort: Int
    let publisher: EventPublisher
    /// A unique name: groups outlive the tests on a real broker.
    let group = "freshet-test-\(UInt64.random(in: 0...UInt64.max))"
    /// Uses short leases and delivery time limits, so that other processes take over a killed one's work soon.
    /// By default they are longer than a busy machine stalls, so that nothing is fetched or published twice.
    var isTakenOverSoon = false

    /// Environment of the processes.
    var environment: [String: String] {
        var environment = [
            "FRESHET_POSTGRES_URL": store.connectionString,
            "FRESHET_KAFKA_BOOTSTRAP_SERVERS": kafka.configuration.bootstrapServers,
            "FRESHET_KAFKA_GROUP": group,
            "FRESHET_PROVIDERS_ALLOW_PRIVATE_NETWORKS": "127.0.0.1",
        ]
        let takeover = ["FRESHET_WORKERS_LEASE": "6s", "FRESHET_KAFKA_DELIVERY_TIMEOUT": "2s"]
        environment.merge(isTakenOverSoon ? takeover : FreshetProcess.patientDelivery) { $1 }
        let properties = kafka.configuration.properties.map { "\($0.key)=\($0.value)" }.sorted()
        if !properties.isEmpty { environment["FRESHET_KAFKA_PROPERTIES"] = properties.joined(separator: ",") }
        for (variable, topic) in [
            ("PUSHES", "freshet.pushes"), ("APP_CHANGES", "freshet.app-changes"), ("WIDGETS", "freshet.widgets"),
            ("TIMELINES", "freshet.timelines"), ("DEAD_LETTERS", "freshet.dead-letters"),
            ("DECISIONS", "freshet.decisions"), ("DONATIONS", "freshet.donations"),
            ("SUGGESTIONS", "freshet.suggestions"),
        ] {
            environment["FRESHET_TOPICS_\(variable)"] = kafka.name(topic)
        }
        return environment
    }

    /// Starts `freshet run` and waits until all its roles are ready.
    func run(_ arguments: String...) async throws -> (process: FreshetProcess, ready: JSONValue) {
        let process = try FreshetProcess(["run", "--print-ready"] + arguments, environment: environment)
        return (process, try await process.firstLine())
    }

    func freshet(
        _ arguments: String..., input: String = ""
    ) async throws -> (status: Int32, out: String, err: String) {
        try await FreshetProcess.run(arguments, environment: environment, input: input)
    }

    /// Publishes events and waits for their acknowledgement.
    func publish(_ events: [OutgoingEvent]) async throws {
        for result in await publisher.publish(events) { _ = try result.get() }
    }

    static func apps(providerPort: Int, timeout: Duration = .seconds(60)) -> [AppDefinition] {
        func kind(_ name: String) -> KindDefinition {
            KindDefinition(
                name: name, displayName: name, description: name, families: WidgetFamily.allCases,
                providerURL: "http://127.0.0.1:\(providerPort)/bank", timeout: timeout, minimumSpacing: .zero,
                placeholder: .object(JSONObject()))
        }
        return [AppDefinition(name: app, developerMode: true, kinds: [kind("RecentPurchases"), kind("DueDate")])]
    }
}

/// Creates an installation and passes it to the closure.
///
/// - Parameter isTakenOverSoon: whether the test kills or suspends processes whose work others are to take over.
func withInstallation(
    isTakenOverSoon: Bool = false, _ body: @Sendable (Installation) async throws -> Void
) async throws {
    let topics = [
        "freshet.pushes", "freshet.app-changes", "freshet.widgets", "freshet.timelines", "freshet.dead-letters",
        "freshet.decisions", "freshet.donations", "freshet.suggestions",
    ]
    let (ports, listening) = AsyncStream.makeStream(of: Int.self)
    let provider = SampleProvider(seed: 7, logger: quietLogger, onListening: { listening.yield($0) })
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            defer { listening.finish() }
            try await provider.run()
        }
        let port = try #require(await ports.first { _ in true })
        try await withKafka(topics: topics, partitions: 8) { kafka in
            // The lease of a list covers the timeout of its kind.
            let apps = Installation.apps(providerPort: port, timeout: .seconds(isTakenOverSoon ? 10 : 60))
            try await withStore(apps) { store in
                let producer = try KafkaProducer(
                    configuration: kafka.configuration, deliveryTimeout: Patience.delivery, logger: quietLogger)
                let publisher = EventPublisher(
                    producer: producer,
                    topics: [
                        .pushes: kafka.name(topics[0]), .appChanges: kafka.name(topics[1]),
                        .widgets: kafka.name(topics[2]), .donations: kafka.name("freshet.donations"),
                    ],
                    source: "/tests")
                do {
                    try await body(
                        Installation(
                            store: store, kafka: kafka, providerPort: port, publisher: publisher,
                            isTakenOverSoon: isTakenOverSoon))
                    await producer.shutdown()
                } catch {
                    await producer.shutdown()
                    throw error
                }
            }
        }
        group.cancelAll()
        do { try await group.waitForAll() } catch is CancellationError {}
    }
}
