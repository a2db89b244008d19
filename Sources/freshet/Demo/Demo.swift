// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetClient
import FreshetService
import JSON
import KafkaClient
import Logging
import SampleProvider
import ServiceLifecycle
import Synchronization
import WidgetAPI
import WidgetDelivery
import WidgetModel
import WidgetStore

/// The settings with which another process reaches the demo.
private final class ReachableSettings: Sendable {
    let value = Mutex<Settings?>(nil)
}

/// The demo: a node with every role, a sample provider, and the services and devices of its apps.
final class Demo: Sendable {
    /// Number of messages on the output topic, and the highest revision by timeline id; negative for a tombstone.
    typealias Output = (messages: Int, revisions: [String: Int64])

    /// Size and pace of a demo.
    struct Plan: Sendable {
        let world: DemoWorld
        /// Time for which events are published.
        let seconds: Int
        /// Single events a second.
        let rate: Int
        let seed: UInt64
        /// Whether it goes on running afterwards.
        let keep: Bool
    }

    private let plan: Plan
    private let settings: Settings
    private let node: FreshetNode
    private let provider: SampleProvider
    private let providerPort = ListeningPort()
    private let latency: DemoLatency
    /// Stand-in for Apple's push service.
    private let apns: APNsStandIn
    private let devices: DemoDevices
    /// Keys of the API.
    private let keys: TokenKeys
    /// Folder of the demo's files.
    private let folder: URL
    private let output = Mutex<Output>((0, [:]))
    /// Settings of a process beside the demo; nil before it listens.
    private let reachable = ReachableSettings()
    /// Number of failed checks; nil until all were made.
    let failedChecks = Mutex<Int?>(nil)
    private let logger: Logger

    init(
        plan: Plan, settings: Settings, folder: URL, apns: APNsStandIn, keys: TokenKeys, logger: Logger
    ) throws {
        self.plan = plan
        self.apns = apns
        (self.folder, self.keys) = (folder, keys)
        self.settings = settings
        self.logger = logger
        let latency = DemoLatency()
        self.latency = latency
        devices = DemoDevices(world: plan.world, apns: apns, keys: keys, rules: settings.api.rules, logger: logger)
        let reachable = reachable
        let doctor = DoctorRuns { app in
            guard let settings = reachable.value.withLock({ $0 }) else { return [] }
            return await Doctor(settings: settings, warnings: [], timeLimit: .seconds(5), app: app).findings()
                .map(\.json)
        }
        node = try FreshetNode(
            settings: settings, logger: logger, metrics: .bootstrap(for: settings),
            onStored: { timeline, cause in latency.noteStored(timeline, cause) },
            findings: { app in await doctor.findings(of: app) })
        provider = SampleProvider(
            seed: plan.seed, faults: SampleProvider.Faults(requestFailures: 0.1, failsFirst: true, apps: [.rangers]),
            maximumTracked: 1_000_000, logger: logger, onListening: providerPort.listens(on:))
    }

    /// In the order in which they start.
    var services: [any Service] {
        [
            providerPort.service("provider", at: "the sample provider", provider)
        ] + node.services(migrate: true) + [
            BackgroundService("output") { [self] in try await readOutput() },
            BackgroundService("demo") { [self] in try await run() },
        ]
    }

    /// Applies the migrations, and requires an empty database.
    func prepare() async throws {
        do {
            try await node.pool.prepare(migrate: true, logger: logger)
            try await node.store.requireEmpty()
        } catch {
            await node.shutdown()
            throw error
        }
    }

    private func readOutput() async throws {
        let consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(kafka: node.kafka, group: "freshet-demo-output"),
            logger: logger)
        try await consumer.read([settings.topics.timelines]) { [self] batch in read(batch) }
    }

    /// Reads messages of `freshet.timelines` as any consumer does: the highest revision of each timeline counts.
    private func read(_ batch: KafkaBatch) {
        output.withLock { output in
            for index in 0..<batch.count {
                guard let key = batch.key(index),
                    let header = batch.header(index, named: "freshet-revision"),
                    let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self))
                else { continue }
                let id = String(decoding: batch.bytes[key], as: UTF8.self)
                output.messages += 1
                guard abs(output.revisions[id] ?? 0) <= revision else { continue }
                output.revisions[id] = batch.value(index) == nil ? -revision : revision
            }
        }
    }

    // MARK: The run

    private func run() async throws {
        var screen = DemoScreen()
        screen.say(
            "Freshet demo: \(plan.world.widgets) widgets of \(plan.world.users) people in "
                + Figure.counted(plan.world.apps.count, "app"), .title)
        let port = try await providerPort.wait()
        if let manifest = plan.world.manifest {
            _ = try await node.store.apply(
                manifest.map(\.definition), secrets: manifest.secrets, freshSecret: { SigningSecret.random().bytes })
        } else {
            try await node.store.register(SampleApp.definitions(port: port))
        }
        let endpoint = try await node.ready()
        try writeSettings(endpoint)
        let provider = plan.world.manifest == nil ? "http://127.0.0.1:\(port)/stats" : "that of the manifest"
        screen.say("  Kafka (embedded) \(endpoint.bootstrapServers) · provider \(provider)")

        let api = "http://127.0.0.1:\(endpoint.apiPort ?? 0)"
        try await withThrowingTaskGroup(of: Void.self) { [screen] group in
            group.addTask { [self] in try await devices.run(api: api) }
            let last = try await EventPublisher.withPublisher(
                kafka: node.kafka, deliveryTimeout: settings.kafka.deliveryTimeout, topics: settings.topicNames,
                source: "/freshet/demo", logger: logger
            ) { [screen, self] publisher in
                let traffic = DemoTraffic(world: plan.world, publisher: publisher, latency: latency)
                return try await phases(traffic, screen)
            }
            if plan.keep { try await wait(last, endpoint) }
            group.cancelAll()
        }
    }

    /// Settings with which another process reaches the demo, also in a file for `freshet` in another terminal.
    private func writeSettings(_ endpoint: FreshetNode.Endpoint) throws {
        var settings = settings
        settings.kafka.embedded = false
        settings.kafka.bootstrapServers = endpoint.bootstrapServers
        settings.kafka.properties.merge(EmbeddedKafka.clientProperties) { given, _ in given }
        settings.api.port = endpoint.apiPort ?? 0
        settings.topics.partitions = settings.kafka.embeddedPartitions
        reachable.value.withLock { $0 = settings }
        guard
            FileManager.default.createFile(
                atPath: settingsFile.path, contents: Data(settings.document.encoded),
                attributes: [.posixPermissions: 0o600])
        else { throw CommandFailure(.failure, "cannot write \(settingsFile.path)") }
    }

    private var settingsFile: URL { folder.appendingPathComponent("freshet.json") }

    private func phases(
        _ traffic: DemoTraffic, _ screen: DemoScreen
    ) async throws -> DemoScreen {
        let start = screen.start
        let applied: @Sendable () -> Int = { [node] in node.metrics.decidedEvents }
        var screen = try await showing("placing widgets", screen, traffic) { [self] in
            try await traffic.registerDevices()
            try await traffic.placeAll(applied: applied)
            try await drain(traffic)
        }
        screen.say("  all placed and rendered after \(Figure.digits(start.duration(to: .now) / .seconds(1))) s")
        let stack = await traffic.arrangeStack()
        try await drain(traffic)
        for line in try await schedule(of: stack) { screen.say(line) }
        screen = try await showing("publishing reloads", screen, traffic) { [plan] in
            try await traffic.stream(rate: plan.rate, for: .seconds(plan.seconds), seed: plan.seed, applied: applied)
        }
        screen = try await showing("finishing", screen, traffic) { [self] in try await drain(traffic) }

        let (summary, lost) = try await judge(traffic, start)
        screen.say("")
        screen.say("Summary (read back from PostgreSQL, Kafka and the provider)", .title)
        for (name, text) in summary { screen.say(name, text) }
        screen.say("  lost: \(lost.count)", lost.isEmpty ? .good : .bad)
        for problem in lost.prefix(20) { screen.say("    - \(problem)") }
        if lost.count > 20 { screen.say("    - … and \(lost.count - 20) more") }
        failedChecks.withLock { $0 = lost.count }
        return screen
    }

    /// Waits until all published events are applied and rendered, at most two minutes.
    ///
    /// - Returns: the state then, since a reload that waits may become due at any later moment.
    @discardableResult
    private func drain(_ traffic: DemoTraffic) async throws -> Overview? {
        let deadline = ContinuousClock.now + .seconds(120)
        var last: Overview?
        while last == nil || ContinuousClock.now < deadline {
            let isApplied = try await node.store.appliedEvents() >= traffic.counts.events - traffic.counts.failures
            last = try await node.store.query(.overview()).first
            if isApplied, let overview = last {
                let isQuiet = overview.sweeps == 0 && overview.leased == 0 && overview.due == 0
                let isSeen = output.withLock { $0.revisions.count } >= Int(overview.stored)
                let isStored = overview.stored >= Int64(plan.world.distinctTimelines)
                if isQuiet && isSeen && isStored && overview.stale <= overview.waiting { return overview }
            }
            try await Task.sleep(for: .milliseconds(200))
        }
        return last
    }

    /// Waits until every device was notified of the changes until now, at most two minutes.
    ///
    /// - Returns: the number of devices that were not.
    private func drainDevices() async throws -> Int64 {
        let deadline = ContinuousClock.now + .seconds(120)
        let now = try await node.store.query(.databaseTime()).first ?? Timestamp.now()
        while true {
            let waiting: Int64 = try await node.store.query(.waitingDevices(since: now)).first ?? 0
            guard waiting > 0, ContinuousClock.now < deadline else { return waiting }
            try await Task.sleep(for: .milliseconds(200))
        }
    }

    /// Reads back from PostgreSQL, Kafka and the provider what was done.
    ///
    /// - Returns: the summary, with where each number was read, and the failed checks.
    private func judge(
        _ traffic: DemoTraffic, _ start: ContinuousClock.Instant
    ) async throws -> (summary: [(name: String, text: String)], lost: [String]) {
        let unnotified = try await drainDevices()
        guard let overview = try await drain(traffic) else {
            throw CommandFailure(.failure, "PostgreSQL answered nothing")
        }
        let applied = try await node.store.appliedEvents()
        let (counts, output) = (traffic.counts, output.withLock { $0 })
        let totals = try await node.store.query(.deviceTotals(silentFor: .zero)).first
        let (latency, pushes, fetched) = (latency.overall(), apns.statistics, devices.fetched)
        let lost = Self.lost(
            overview: overview, output: output, events: (counts.events, applied), failures: counts.failures,
            expectedTimelines: plan.world.distinctTimelines, devicesWaiting: unnotified)
        let seconds = start.duration(to: .now) / .seconds(1)
        let summary: [(name: String, text: String)] = [
            ("events published", counts.words), ("events applied", "\(applied) (consumer positions in PostgreSQL)"),
            ("widgets / timelines", "\(overview.widgets) / \(overview.timelines) (PostgreSQL)"),
            ("timelines stored", "\(overview.stored), due \(overview.due) (PostgreSQL)"),
            (
                "reloads that wait",
                "\(overview.waiting), for their budget or spacing, or until a failed request is repeated"
            ),
            (
                "timelines published",
                "\(output.messages) messages for \(output.revisions.count) timelines (freshet.timelines)"
            ),
            (
                "devices notified",
                "\(pushes.byToken.count) of \(totals?.devices ?? 0), \(pushes.accepted) pushes (stand-in for APNs)"
            ),
            ("devices that fetched", "\(fetched.devices), \(fetched.fetches) requests (the HTTP API)"),
            ("provider", requests),
            (
                "event → stored",
                "p50 \(Figure.digits(latency.p50)) ms, p99 \(Figure.digits(latency.p99)) ms (\(latency.samples) samples)"
            ), ("doctor", await diagnosis()), ("wall time", "\(Figure.digits(seconds)) s"),
        ]
        return (summary, lost)
    }

    /// Requests that the sample provider has had.
    private var requests: String {
        guard plan.world.manifest == nil else { return "that of the manifest" }
        let (answered, failed) = provider.statistics { ($0.answered, $0.failedRequests) }
        return "\(answered.requests) requests for \(answered.timelines) timelines, "
            + "\(Figure.digits(answered.meanBatch)) a request, at most \(answered.largestBatch); "
            + "\(failed) requests of the rangers failed on purpose"
    }

    /// The number of the doctor's problems and warnings.
    private func diagnosis() async -> String {
        guard let settings = reachable.value.withLock({ $0 }) else { return "not run" }
        let found = await Doctor(settings: settings, warnings: [], timeLimit: .seconds(10)).findings()
        let problems = found.count { $0.severity == .problem }
        let warnings = found.count { $0.severity == .warning }
        return "\(Figure.counted(problems, "problem")), \(Figure.counted(warnings, "warning"))"
    }

    /// Compares what was requested with what has been rendered, stored and published.
    static func lost(
        overview: Overview, output: Output, events: (published: Int, applied: Int), failures: Int,
        expectedTimelines: Int, devicesWaiting: Int64 = 0
    ) -> [String] {
        var lost: [String] = []
        if devicesWaiting > 0 { lost.append("\(devicesWaiting) devices wait to be notified of changes") }
        if failures > 0 { lost.append("\(failures) events were not acknowledged by Kafka") }
        if events.applied != events.published {
            lost.append("\(events.published) events were published, \(events.applied) are applied")
        }
        if overview.stored != Int64(expectedTimelines) {
            lost.append("\(expectedTimelines) distinct timelines expected, \(overview.stored) are stored")
        }
        // Budgets and spacing delay a reload, and drop none.
        let forgotten = overview.stale - overview.waiting
        if forgotten > 0 { lost.append("\(forgotten) timelines are still stale") }
        if overview.sweeps > 0 { lost.append("\(overview.sweeps) sweeps are not done") }
        // A list ends once all that was stored is published.
        if overview.leased > 0 { lost.append("\(overview.leased) timelines are in lists that have not ended") }
        if overview.deadLetters > 0 { lost.append("\(overview.deadLetters) events became dead letters") }
        let published = output.revisions.values.count { $0 > 0 }
        if published != Int(overview.stored) {
            lost.append("\(overview.stored) timelines are stored, \(published) were seen on the output topic")
        }
        return lost
    }

    /// Asks for the schedule of a stack, waits until the workers have planned it, and describes it; at most half a
    /// minute.
    private func schedule(of key: StackPlan.Key) async throws -> [String] {
        try await node.store.wantSchedule(key)
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline {
            let stored = try await node.store.query(
                .readSchedules(app: key.app, user: key.user, stack: key.stack, device: key.device)
            ).first
            if let text = stored?.schedule, let plan = StackPlan(stored: try JSONValue.parse(text), key: key) {
                return Self.describe(plan, key)
            }
            try await Task.sleep(for: .milliseconds(100))
        }
        return ["  stack \(key.stack) of \(key.user): not planned within 30 s"]
    }

    private static func describe(_ plan: StackPlan, _ key: StackPlan.Key) -> [String] {
        guard let last = plan.schedule.rotations.last(where: { $0.from <= plan.plannedAt }) else {
            return ["  stack \(key.stack) of \(key.user): none of its widgets is placed"]
        }
        func name(_ rotation: StackSchedule.Rotation) -> String { rotation.item.widget ?? "a suggestion" }
        let next = plan.schedule.rotations.first { $0.from > plan.plannedAt }
        return [
            "  stack \(key.stack) of \(key.user): \(name(last)) is on top: \(last.reason.words)",
            next.map { "    next \(name($0)) at \($0.from.wholeSeconds): \($0.reason.words)" },
        ].compactMap { $0 }
    }

    // MARK: Afterwards

    private func wait(_ screen: DemoScreen, _ endpoint: FreshetNode.Endpoint) async throws {
        var screen = screen
        for line in [
            "", "It goes on running; Ctrl-C ends it. In another terminal:", "",
            "  export FRESHET_CONFIG_FILE=\(settingsFile.path)",
            "  export FRESHET_KAFKA_BOOTSTRAP_SERVERS=\(endpoint.bootstrapServers)",
            "  alias freshet='\(Self.program)'", "",
        ] + commands.map({ "  " + $0 }) { screen.say(line) }
        if let links = settings.console.links, let port = endpoint.apiPort {
            screen.say("\nThe console, by app; each link signs in once:\n")
            for app in plan.world.apps {
                let token = try await keys.issue(
                    app: app, scopes: TokenScope.allCases, subject: "demo", issuer: settings.api.rules.issuer,
                    audience: settings.api.rules.audience, expiresAt: Timestamp.now() + .seconds(86_400))
                screen.say("  \(app)\n    http://127.0.0.1:\(port)\(links.add(token: token))")
            }
        }
        // Until the group is shut down, which cancels this.
        try await Task.sleep(for: .seconds(365 * 86_400))
    }

    /// Path of this program.
    private static var program: String {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
            ?? URL(fileURLWithPath: CommandLine.arguments.first ?? "freshet").path
    }

    /// Commands to try, each of which can be pasted.
    private var commands: [String] {
        let first = plan.world.placement(0)
        let show = "freshet timelines show --app \(first.app) --widget w0"
        let push = "freshet publish push --app \(first.app) --user u0 --kind \(first.kind)"
        var commands = [show, push]
        if plan.world.manifest == nil { commands.append(Self.kcatExample) }
        commands += [show, "freshet explain --app \(first.app) w0 --history"]
        if plan.world.manifest == nil {
            commands.append("freshet options --app \(first.app) --kind \(first.kind) --parameter card")
        }
        return commands + [
            "freshet health --ready", "freshet doctor",
            "freshet tokens issue --app \(plan.world.apps.last ?? first.app) --scope widgets:read",
        ]
    }

    /// The README's example line.
    static let kcatExample = """
        echo '{"specversion":"1.0","id":"1","source":"/docs","type":"freshet.push.received.v1","data":{"app":\
        "com.example.bank","audience":{"user":"u0"},"kinds":["RecentPurchases"]}}' | kcat -P -b \
        "$FRESHET_KAFKA_BOOTSTRAP_SERVERS" -t freshet.pushes -k u0
        """
}

extension Demo {
    // MARK: The screen

    /// Does the work of a phase and shows the progress.
    private func showing(
        _ phase: String, _ screen: DemoScreen, _ traffic: DemoTraffic,
        _ work: @escaping @Sendable () async throws -> Void
    ) async throws -> DemoScreen {
        var screen = screen
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await work()
                return true
            }
            group.addTask { try await Self.pause() }
            var stored = node.metrics.completedTimelines
            var before = ContinuousClock.now
            while let isDone = try await group.next() {
                let now = ContinuousClock.now
                let completed = node.metrics.completedTimelines
                let seconds = max(before.duration(to: now) / .seconds(1), 0.001)
                screen.show(
                    "\(phase) · \(Int(screen.start.duration(to: now) / .seconds(1))) s",
                    try await facts(traffic, completed, perSecond: Double(completed - stored) / seconds))
                (stored, before) = (completed, now)
                if isDone { break }
                group.addTask { try await Self.pause() }
            }
            group.cancelAll()
        }
        return screen
    }

    private static func pause() async throws -> Bool {
        try await Task.sleep(for: .milliseconds(500))
        return false
    }

    private func facts(
        _ traffic: DemoTraffic, _ completed: Int, perSecond: Double
    ) async throws -> [(name: String, value: String)] {
        let lists = try await node.store.query(.readWorkLists(app: nil))
        let due = lists.reduce(0) { $0 + $1.ready.timelines + $1.leased.timelines + $1.resting.timelines }
        let (answered, latency) = (provider.statistics(\.answered), latency.takeRecent())
        return [
            ("events published", "\(traffic.counts.events)"),
            ("events applied", "\(node.metrics.decidedEvents)"), ("reloads due", "\(due)"),
            ("timelines stored", "\(completed) (\(Figure.digits(perSecond))/s)"),
        ]
            + (plan.world.manifest == nil
                ? [("provider requests", "\(answered.requests) of \(Figure.digits(answered.meanBatch)) timelines")]
                : [])
            + [
                ("event → stored", "p50 \(Figure.digits(latency.p50)) ms, p99 \(Figure.digits(latency.p99)) ms"),
                ("a sample widget", try await sample()),
            ]
    }

    /// The entry that the first person's purchases widget shows now.
    private func sample() async throws -> String {
        let placement = plan.world.placement(0)
        guard
            let timeline = try await node.store.query(
                .readWidgetTimeline(app: placement.app, widget: placement.widget)
            ).first,
            timeline.content != nil
        else { return "not rendered yet" }
        let entry = timeline.currentEntry().flatMap { try? JSONValue.parse(Array($0)) }
        let text = entry?["content"]?.canonical ?? "no entry yet"
        return "\(timeline.requested) reloads: " + (text.count > 70 ? String(text.prefix(69)) + "…" : text)
    }
}

extension MetricRegistry {
    /// Events that were applied or became dead letters.
    fileprivate var decidedEvents: Int {
        ingestEvents.total(["outcome": "applied"]) + ingestEvents.total(["outcome": "dead_letter"])
    }

    /// Timelines whose content was stored, or found unchanged.
    fileprivate var completedTimelines: Int { stored.total() + gateTimelines.total() }
}
