import FreshetClient
import KafkaClient
import Logging
import PostgresClient
import ReloadIngest
import ServiceLifecycle
import WidgetModel
import WidgetStore

/// Publishes pushes for a number of users with one widget each, and measures how they are applied.
struct LoadIngest: LoadScenario {
    let node: FreshetNode
    let events: Int
    let targets: Int
    let seed: UInt64
    let logger: Logger

    struct Result: LoadReport {
        var events: Int
        var targets: Int
        var wallSeconds: Double
        var ingest: IngestStatistics.Snapshot
        /// Read back from PostgreSQL: events published, less what the timelines' counters have gained.
        var lost: Int
    }

    private var app: LoadApp { LoadApp(name: DemoWorld.bank, people: targets, kinds: ["DueDate"]) }

    var services: [any Service] { node.services }

    func prepare() async throws {
        try await node.prepare(migrate: true)
        try await node.requireEmptyDatabase()
    }

    func run() async throws -> any LoadReport {
        // Nobody asks the provider: this process runs no workers.
        try await node.register([app.definition(port: 9)])
        try await node.importWidgets(of: app)
        _ = try await node.ready()
        let producer = try KafkaProducer(
            configuration: node.kafka, deliveryTimeout: node.settings.kafka.deliveryTimeout, logger: logger)
        let before = try await requested()
        let start = ContinuousClock.now
        do {
            try await publish(
                EventPublisher(producer: producer, topics: node.settings.topicNames, source: "/freshet/load"))
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

    /// Held back when ingest is far behind: the embedded cluster keeps only the last 5 MiB of a partition.
    private func publish(_ publisher: EventPublisher) async throws {
        var random = DemoRandom(seed: seed)
        var sent = 0
        while sent < events {
            let chunk = (0..<min(5_000, events - sent)).map { index in
                OutgoingEvent(
                    app.reload(Int.random(in: 0..<targets, using: &random)), id: "load-\(sent + index)",
                    time: SampleProvider.systemTime())
            }
            for result in await publisher.publish(chunk) { _ = try result.get() }
            sent += chunk.count
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
