import KafkaClient
import Logging
import PostgresClient
import ReloadIngest
import WidgetEvents
import WidgetModel
import WidgetStore

/// Publishes pushes for a number of users with one widget each, and measures how they are applied.
struct LoadIngest: Sendable {
    let node: FreshetNode
    let events: Int
    let targets: Int
    let seed: UInt64
    let logger: Logger

    struct Result: Sendable {
        var events: Int
        var targets: Int
        var wallSeconds: Double
        var ingest: IngestStatistics.Snapshot
        /// Read back from PostgreSQL: events published, less what the timelines' counters have gained.
        var lost: Int
    }

    func run() async throws -> Result {
        guard try await node.pool.query(Overview()).first?.timelines == 0 else {
            throw CommandFailure(.failure, "the database holds timelines already; expected an empty one")
        }
        try await preload()
        _ = try await node.ready()
        let producer = try KafkaProducer(
            configuration: node.kafka, deliveryTimeout: node.settings.kafka.deliveryTimeout, logger: logger)
        let before = try await requested()
        let start = ContinuousClock.now
        do {
            try await publish(producer)
            while applied < events { try await Task.sleep(for: .milliseconds(2)) }
        } catch {
            await producer.shutdown()
            throw error
        }
        let seconds = start.duration(to: .now) / .seconds(1)
        await producer.shutdown()
        guard let counts = node.statistics().ingest else {
            throw CommandFailure(.failure, "this process runs no ingest")
        }
        return Result(
            events: events, targets: targets, wallSeconds: seconds, ingest: counts,
            lost: events - (try await requested() - before))
    }

    private var applied: Int {
        let counts = node.statistics().ingest
        return (counts?.events ?? 0) + (counts?.deadLetters ?? 0)
    }

    private func requested() async throws -> Int {
        Int(try await node.pool.query(Overview()).first?.requested ?? 0)
    }

    private func preload() async throws {
        _ = try await node.store.apply(DemoKinds.apps(port: 9, rules: false), secrets: [:]) {
            (0..<32).map { _ in UInt8.random(in: 0...255) }
        }
        let directory = try await DirectoryCache(pool: node.pool).refresh()
        guard let app = directory.apps[DemoWorld.bank], let kind = directory.kind("DueDate", of: app) else {
            throw CommandFailure(.failure, "the sample kinds could not be registered")
        }
        let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")
        for first in stride(from: 0, to: targets, by: 10_000) {
            _ = try await node.store.importWidgets(
                (first..<min(first + 10_000, targets)).map { index in
                    ImportedWidget(
                        placement: WidgetPlacement(
                            app: app.name, widget: "w\(index)", user: "u\(index)", device: "d\(index)",
                            kind: kind.definition.name, family: .systemSmall, environment: environment),
                        kind: kind, time: SampleProvider.systemTime())
                })
        }
    }

    /// Held back when ingest is far behind: the embedded cluster keeps only the last 5 MiB of a partition.
    private func publish(_ producer: KafkaProducer) async throws {
        var random = DemoRandom(seed: seed)
        var sent = 0
        while sent < events {
            let messages = (0..<min(5_000, events - sent)).map { index in
                let user = "u\(Int.random(in: 0..<targets, using: &random))"
                let encoded = EventEncoder.encode(
                    .push(
                        ReloadRequest(
                            app: DemoWorld.bank, audience: .user(user), kinds: .kinds(["DueDate"]), reason: .push)),
                    id: "load-\(sent + index)", source: "/freshet/load", time: nil)
                return KafkaMessage(
                    topic: node.settings.topics.pushes, key: encoded.key, value: encoded.value,
                    headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) })
            }
            for result in await producer.send(messages) { _ = try result.get() }
            sent += messages.count
            while sent - applied > 40_000 { try await Task.sleep(for: .milliseconds(1)) }
        }
    }
}

extension LoadIngest.Result {
    private var rate: Double { Double(events) / max(wallSeconds, 0.001) }

    var lines: [String] {
        [
            "events                 \(events) for \(targets) timelines, lost \(lost)",
            "wall time              \(DemoScreen.decimal(wallSeconds)) s, \(Int(rate)) events/s",
            "batches                \(ingest.batches), \(DemoScreen.decimal(perBatch(events))) events each",
            "rows of SQL input      \(ingest.markInputs), \(DemoScreen.decimal(perBatch(ingest.markInputs))) a batch",
            "timeline rows written  \(ingest.marked), \(DemoScreen.decimal(perBatch(ingest.marked))) a batch",
        ]
    }

    private func perBatch(_ count: Int) -> Double { Double(count) / Double(max(ingest.batches, 1)) }

    var json: JSONValue {
        func number(_ value: Int) -> JSONValue { .number(JSONNumber(value)) }
        return [
            "scenario": "ingest", "events": number(events), "distinctTimelines": number(targets),
            "wallMilliseconds": number(Int(wallSeconds * 1000)), "eventsPerSecond": number(Int(rate)),
            "batches": number(ingest.batches), "inputRows": number(ingest.markInputs),
            "timelineRows": number(ingest.marked), "lost": number(lost),
        ]
    }
}
