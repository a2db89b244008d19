import KafkaClient
import Logging
import PostgresClient
import ReloadIngest
import WidgetModel
import WidgetStore

/// The limits that the other scenarios are divided by: the statements of a reload with the same rows, one after the other
/// on one connection, with no Kafka and no HTTP; and the bare consumption of the events.
struct LoadCeiling: Sendable {
    struct Plan: Sendable {
        var world: LoadWorld
        var events: Int
        var seed: UInt64
        /// Of Zipf's law, by which widgets are chosen; nil for everyone alike.
        var exponent: Double?
        /// Events folded into one mark, and timelines in one claim, save and completion: about as many as in the service, whose
        /// ingest marks at most ``IngestConfiguration/maximumMarks`` rows at a time.
        var markBatch = IngestConfiguration().maximumMarks
        var batch = 2_000

        var farm: Farm.Plan {
            LoadDrain.Plan(world: world, events: events, seed: seed, passes: 2).farm
        }
    }

    /// One of the steps of a reload.
    struct Step: Sendable, Equatable {
        var rows = 0
        var seconds = 0.0

        var perSecond: Double { seconds > 0 ? Double(rows) / seconds : 0 }

        var json: JSONValue {
            [
                "rows": .number(JSONNumber(rows)), "seconds": .rounded(seconds), "perSecond": .rounded(perSecond),
                "microsecondsEach": .rounded(rows > 0 ? seconds * 1e6 / Double(rows) : nil),
            ]
        }
    }

    /// What was stored, to be looked for afterwards, and when.
    private struct Written {
        var hashes: [TimelineID: ContentHash] = [:]
        var recorder: DrainRecorder

        init(goal: Int) {
            recorder = DrainRecorder(goal: goal, phase: "claim, save, complete")
            recorder.record(applied: 0, fetched: 0)
        }
    }

    let plan: Plan
    let farm: Farm

    /// As a scenario of its own: places the widgets, and does everything twice; the second time counts.
    func run() async throws -> any LoadReport {
        try await plan.world.place(in: farm.store, provider: farm.providerURL)
        Terminal.progress("storing \(plan.world.widgets) timelines for the first time")
        var ignored: [String: Step] = [:]
        var first = Written(goal: plan.world.widgets)
        try await reload(lane: .bulk, number: 0, into: &ignored, &first)
        _ = await farm.checkpoint()
        _ = try await statements(number: 1)
        let result = try await statements(number: 2)
        Terminal.progress("reading the events")
        return try await consuming(into: result)
    }

    /// The statements over the events' timelines.
    ///
    /// - Parameter number: makes the content different from what is stored.
    func statements(number: Int) async throws -> LoadResult {
        var choice = PopularWidgets(of: plan.world, exponent: plan.exponent, seed: plan.seed)
        let widgets = choice.next(plan.events)
        let targets = Set(widgets)
        var steps: [String: Step] = [:]
        var written = Written(goal: targets.count)
        Terminal.progress("statements, back to back")
        let before = try await farm.vitals()
        farm.sampler.sample()
        let start = ContinuousClock.now
        try await mark(widgets, into: &steps)
        try await reload(lane: .push, number: number, into: &steps, &written)
        let seconds = start.duration(to: .now) / .seconds(1)
        let after = try await farm.vitals()
        let overview = try await farm.pool.query(Overview()).first

        var result = LoadResult(scenario: "ceiling")
        result.events = plan.events
        result.distinctTimelines = targets.count
        result.timelines = steps["complete"]?.rows ?? 0
        result.wallSeconds = seconds
        result.walBytes = Int(after.walBytes - before.walBytes)
        result.stale = Int(overview?.stale ?? 0)
        result.lost = result.distinctTimelines - (steps["complete"]?.rows ?? 0)
        let hashes = written.hashes
        try await farm.forEachTimeline { row in
            guard let hash = hashes[row.id] else { return }
            if !row.isStale, row.hash == hash, row.publishedHash == hash { result.verified += 1 }
        }
        result.charts.samples = LoadCharts(samples: written.recorder.samples).thinned(to: 600)
        result.extras = Self.names.map { ($0, steps[$0, default: Step()].json) }
        return result
    }

    private static let names = ["mark", "claim", "save", "complete"]

    private func directory() async throws -> (app: Int32, kinds: [Int32]) {
        let directory = try await DirectoryCache(pool: farm.pool).refresh()
        guard let app = directory.apps[LoadWorld.app] else {
            throw CommandFailure(.failure, "the app \(LoadWorld.app) is not registered")
        }
        return (app.id, (0..<plan.world.kinds).compactMap { directory.kind(plan.world.kind($0), of: app)?.id })
    }

    private static func time<Value>(
        _ name: String, _ steps: inout [String: Step], rows: (Value) -> Int, _ body: () async throws -> Value
    ) async throws -> Value {
        let start = ContinuousClock.now
        let value = try await body()
        steps[name, default: Step()].seconds += start.duration(to: .now) / .seconds(1)
        steps[name, default: Step()].rows += rows(value)
        return value
    }

    private func mark(_ widgets: [Int], into steps: inout [String: Step]) async throws {
        let (app, kinds) = try await directory()
        for first in stride(from: 0, to: widgets.count, by: plan.markBatch) {
            var events: [Int: Int64] = [:]
            let batch = widgets[first..<min(first + plan.markBatch, widgets.count)]
            for widget in batch { events[widget, default: 0] += 1 }
            let marks = events.sorted { $0.key < $1.key }.map { widget, count in
                TimelineMark(
                    appID: app, audienceID: "w\(widget)", kindID: kinds[widget % kinds.count], matching: nil,
                    events: count, urgency: .budgeted, lane: ReloadLane.push.rawValue,
                    cause: EventPosition(topic: 0, partition: 0, offset: Int64(first)), reason: .push)
            }
            _ = try await Self.time(
                "mark", &steps, rows: { _ in batch.count }, { try await farm.pool.query(MarkWidgets(marks)) })
        }
    }

    /// Claims, stores and completes all that is due in a lane.
    private func reload(
        lane: ReloadLane, number: Int, into steps: inout [String: Step], _ written: inout Written
    ) async throws {
        let (_, kinds) = try await directory()
        let share = max(1, plan.batch / kinds.count)
        let wishes = kinds.map { ClaimWish(kindID: $0, lane: lane, count: share) }
        var serial = UInt64(number) * 1_000_000_000
        while true {
            try Task.checkCancellation()
            let claimed = try await Self.time("claim", &steps, rows: \.count) {
                try await farm.pool.query(ClaimTimelines(wishes, lease: .seconds(30)))
            }
            guard !claimed.isEmpty else { return }
            let contents = claimed.map { timeline in
                serial += 1
                return (timeline: timeline, content: Self.content(serial))
            }
            let writes = contents.map { timeline, content in
                ContentWrite(
                    id: timeline.id, claim: timeline.claim, hash: ContentHash(of: Array(content.utf8)),
                    content: content, tid: timeline.tid)
            }
            _ = try await Self.time("save", &steps, rows: \.count) {
                try await farm.pool.query(SaveContentInPlace(writes))
            }
            let completions = zip(claimed, writes).map { timeline, write in
                Completion(
                    id: timeline.id, claim: timeline.claim, requested: timeline.requested,
                    kindGeneration: timeline.kindGeneration, appGeneration: timeline.appGeneration,
                    publishedHash: write.hash, nextReload: timeline.claimedAt + .seconds(86_400),
                    jitter: .seconds(60), spacing: .zero, decision: .reloaded, reason: .push, cause: timeline.cause,
                    tid: timeline.tid)
            }
            _ = try await Self.time("complete", &steps, rows: \.count) {
                try await farm.pool.query(CompleteTimelinesInPlace(completions))
            }
            for write in writes { written.hashes[write.id] = write.hash }
            written.recorder.record(applied: written.hashes.count, fetched: written.hashes.count)
        }
    }

    /// As long as what the sample provider answers.
    private static func content(_ number: UInt64) -> String {
        let text = "Paid at the corner shop for bread and milk"
        let entries = (0..<3).map { index in
            """
            {"content":{"amount":"\(index + 12).40","number":"\(number)","text":"\(text)","title":"Account \(index)"},\
            "date":"2026-01-0\(index + 1)T00:00:00Z","relevance":{"duration":3600,"score":0.5}}
            """
        }
        return "{\"entries\":[\(entries.joined(separator: ","))],\"policy\":{\"after\":\"2026-01-09T00:00:00Z\"}}"
    }

    /// The events out of Kafka with no more done to them than that they are counted.
    private func consuming(into result: LoadResult) async throws -> LoadResult {
        let drain = LoadDrain(
            plan: LoadDrain.Plan(world: plan.world, events: plan.events, seed: plan.seed, passes: 1), farm: farm)
        try await drain.publishEvents()
        let topic = farm.settings.topics.pushes
        let ends = try await LoadOutput.ends(of: topic, kafka: farm.kafka, logger: farm.logger)
        let consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(
                kafka: farm.kafka, group: farm.settings.kafka.group + "-ceiling", topics: [topic]),
            logger: farm.logger)
        var step = Step()
        var start: ContinuousClock.Instant?
        let total = Int(ends.values.reduce(0, +))
        do {
            reading: for try await event in consumer.events {
                switch event {
                case .assigned(let assignment):
                    start = .now
                    assignment.start(at: [:])
                case .batch(let batch):
                    step.rows += batch.count
                    if step.rows >= total { break reading }
                case .revoked(let revocation): revocation.acknowledge()
                case .offsetOutOfRange, .error: break
                }
            }
        } catch {
            await consumer.shutdown()
            throw error
        }
        step.seconds = (start ?? .now).duration(to: .now) / .seconds(1)
        await consumer.shutdown()
        var result = result
        result.extras.append(("consume", step.json))
        return result
    }
}
