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

/// The demo: a node with every role, a sample provider, and the services and devices of its apps.
final class Demo: Sendable {
    /// Number of messages on the output topic, and the highest revision by timeline id; negative for a tombstone.
    typealias Output = (messages: Int, revisions: [String: Int64])

    private let plan: DemoCommand
    private let settings: Settings
    private let node: FreshetNode
    private let provider: SampleProvider
    private let providerPort = ListeningPort()
    private let latency: DemoLatency
    /// Stand-in for Apple's push service.
    private let apns: APNsStandIn
    /// Token for the console, if it is served.
    private let token: String?
    private let output = Mutex<Output>((0, [:]))
    /// Number of failed checks; nil until all were made.
    let failedChecks = Mutex<Int?>(nil)
    private let logger: Logger

    init(
        plan: DemoCommand, settings: Settings, apns: APNsStandIn, token: String?, logger: Logger
    ) throws {
        self.plan = plan
        self.apns = apns
        self.token = token
        self.settings = settings
        self.logger = logger
        let latency = DemoLatency()
        self.latency = latency
        node = try FreshetNode(
            settings: settings, logger: logger,
            metrics: token == nil ? MetricRegistry() : .bootstrap(for: settings),
            onStored: { timeline, cause in latency.noteStored(timeline, cause) })
        provider = SampleProvider(
            seed: plan.seed, maximumTracked: 1_000_000, logger: logger, onListening: providerPort.listens(on:))
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
        screen.say("Freshet demo: \(plan.world.widgets) widgets of \(plan.world.users) people in three apps")
        let port = try await providerPort.wait()
        let apps = SampleApp.definitions(port: port)
        try await node.store.register(apps)
        let endpoint = try await node.ready()
        screen.say("  Kafka (embedded) \(endpoint.bootstrapServers) · provider http://127.0.0.1:\(port)/stats")

        screen = try await EventPublisher.withPublisher(
            kafka: node.kafka, deliveryTimeout: settings.kafka.deliveryTimeout, topics: settings.topicNames,
            source: "/freshet/demo", logger: logger
        ) { [screen, self] publisher in
            let traffic = DemoTraffic(world: plan.world, publisher: publisher, latency: latency)
            return try await phases(traffic, screen)
        }
        if plan.keep { try await wait(screen, endpoint) }
    }

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
        for line in summary { screen.say(line) }
        failedChecks.withLock { $0 = lost }
        return screen
    }

    /// Waits until all published events are applied and rendered, at most two minutes.
    private func drain(_ traffic: DemoTraffic) async throws {
        let deadline = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < deadline {
            let isApplied = try await node.store.appliedEvents() >= traffic.counts.events - traffic.counts.failures
            if isApplied, let overview = try await node.store.query(.overview()).first {
                let isQuiet = overview.sweeps == 0 && overview.leased == 0 && overview.due == 0
                let isSeen = output.withLock { $0.revisions.count } >= Int(overview.stored)
                if isQuiet && isSeen && overview.stale == 0 { return }
            }
            try await Task.sleep(for: .milliseconds(200))
        }
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
    /// - Returns: the summary, with where each number was read, and the number of failed checks.
    private func judge(
        _ traffic: DemoTraffic, _ start: ContinuousClock.Instant
    ) async throws -> (summary: [String], lost: Int) {
        guard let overview = try await node.store.query(.overview()).first else {
            throw CommandFailure(.failure, "PostgreSQL answered nothing")
        }
        let waiting = try await drainDevices()
        let applied = try await node.store.appliedEvents()
        let (counts, output) = (traffic.counts, output.withLock { $0 })
        let totals = try await node.store.query(.deviceTotals(silentFor: .zero)).first
        let (provider, latency, pushes) = (provider.statistics(\.answered), latency.overall(), apns.statistics)
        let lost = Self.lost(
            overview: overview, output: output, events: (counts.events, applied), failures: counts.failures,
            expectedTimelines: plan.world.distinctTimelines, devicesWaiting: waiting)
        let seconds = start.duration(to: .now) / .seconds(1)
        let placed = "\(counts.registered) devices, \(counts.placed) placed, \(counts.arranged) of a stack"
        let notified = "\(pushes.byToken.count) of \(totals?.devices ?? 0), \(pushes.accepted) pushes"
        var lines = [
            "",
            "Summary (read back from PostgreSQL, Kafka and the provider)",
            "  events published            \(counts.events)   (\(placed), \(counts.targeted) targeted"
                + " pushes, \(counts.appChanges) app changes, \(counts.views) views,"
                + " \(counts.perKind) per-kind and \(counts.global) global reloads)",
            "  events applied              \(applied)   (consumer positions in PostgreSQL)",
            "  widgets / timelines         \(overview.widgets) / \(overview.timelines)   (PostgreSQL)",
            "  timelines stored            \(overview.stored), stale \(overview.stale), due \(overview.due)   (PostgreSQL)",
            "  timelines published         \(output.messages) messages for \(output.revisions.count) timelines"
                + "   (freshet.timelines)",
            "  devices notified            \(notified)   (stand-in for APNs)",
            "  provider                    \(provider.requests) requests for \(provider.timelines) timelines,"
                + " \(Figure.digits(provider.meanBatch)) a request, at most \(provider.largestBatch)",
            "  event → stored              p50 \(Figure.digits(latency.p50)) ms,"
                + " p99 \(Figure.digits(latency.p99)) ms   (\(latency.samples) samples)",
            "  wall time                   \(Figure.digits(seconds)) s",
            "  lost: \(lost.count)",
        ]
        for problem in lost.prefix(20) { lines.append("    - \(problem)") }
        if lost.count > 20 { lines.append("    - … and \(lost.count - 20) more") }
        return (lines, lost.count)
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
        if overview.stale > 0 { lost.append("\(overview.stale) timelines are still stale") }
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
            next.map { "    next \(name($0)) at \($0.from.rfc3339): \($0.reason.words)" },
        ].compactMap { $0 }
    }

    // MARK: Afterwards

    private func wait(_ screen: DemoScreen, _ endpoint: FreshetNode.Endpoint) async throws {
        var screen = screen
        let program = CommandLine.arguments.first ?? "freshet"
        for line in [
            "",
            "It goes on running; Ctrl-C ends it. In another terminal:",
            "",
            "  export FRESHET_KAFKA_BOOTSTRAP_SERVERS=\(endpoint.bootstrapServers)",
            "  export FRESHET_POSTGRES_URL='\(settings.postgres.url ?? "")'",
            "  alias freshet=\(program)",
            "",
            "  freshet timelines show --app \(SampleWorld.bank) --widget w0",
            "  freshet publish push --app \(SampleWorld.bank) --user u0 --kind RecentPurchases",
            "  " + Self.kcatExample,
            "  freshet timelines show --app \(SampleWorld.bank) --widget w0",
        ] { screen.say(line) }
        if let token, let port = endpoint.apiPort {
            screen.say("\nThe console is at http://127.0.0.1:\(port)/console; sign in with this token:\n\n  \(token)")
        }
        // Until the group is shut down, which cancels this.
        try await Task.sleep(for: .seconds(365 * 86_400))
    }

    /// The README's example line.
    static let kcatExample = """
        echo '{"specversion":"1.0","id":"1","source":"/docs","type":"freshet.push.received.v1","data":{"app":\
        "com.example.bank","audience":{"user":"u0"},"kinds":["RecentPurchases"]}}' | kcat -P -b \
        "$FRESHET_KAFKA_BOOTSTRAP_SERVERS" -t freshet.pushes -k u0
        """
}

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Shows the whole service at work: embedded Kafka, a sample provider, and every role in this process.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url); ./deploy/local/demo starts one. Places widgets, publishes \
            single, per-kind and global reloads and app changes for a while, shows what happens, and at the end reads \
            back from PostgreSQL, Kafka and the provider what was asked for and what was done. The exit code is 1 if \
            any requested reload is missing.

            Examples:
              freshet demo
              freshet demo --seconds 20 --widgets 5000
              freshet demo --keep
            """)

    @Option(help: "Number of widgets to place.", transform: OptionText.number(1...1_000_000))
    var widgets = 20_000

    @Option(help: "Seconds for which events are published.", transform: OptionText.number(1...86_400))
    var seconds = 60

    @Option(help: "Single events published a second.", transform: OptionText.number(1...20_000))
    var rate = 1_000

    @Option(help: "Seed of the events and of the content.")
    var seed: UInt64 = 1

    @Flag(help: "Leave everything running afterwards, to publish by hand, until Ctrl-C.")
    var keep = false

    @OptionGroup var settings: SettingsOptions

    var world: SampleWorld { SampleWorld(widgets: widgets) }

    /// Creates the keys of the console of a demo that keeps running, and sets what it needs.
    ///
    /// - Returns: an operator's token for the sample bank.
    private func configureConsole(_ settings: inout Settings, in folder: URL) async throws -> String {
        let set: JSONValue = ["keys": .array([TokenKeys.makeKey(.hs256, id: "demo")])]
        let keys = folder.appendingPathComponent("keys.json")
        guard
            FileManager.default.createFile(
                atPath: keys.path, contents: Data(set.encoded), attributes: [.posixPermissions: 0o600])
        else { throw CommandFailure(.failure, "cannot write \(keys.path)") }
        settings.api.keys = keys.path
        settings.console.enabled = true
        settings.console.key = Data((0..<ConsoleKey.minimumBytes).map { _ in UInt8.random(in: 0...255) })
            .base64EncodedString()
        return try await TokenKeys(jwks: set.encoded).issue(
            app: SampleWorld.bank, scopes: TokenScope.allCases, subject: "demo", issuer: settings.api.rules.issuer,
            audience: settings.api.rules.audience, expiresAt: Timestamp.now() + .seconds(86_400))
    }

    /// Sets the keys and the address of the stand-in for Apple's push service.
    private func configureDelivery(_ settings: inout Settings, by apns: APNsStandIn, in folder: URL) throws {
        let (key, roots) = (folder.appendingPathComponent("key.p8"), folder.appendingPathComponent("roots.pem"))
        try Data(APNsStandIn.makeKey().utf8).write(to: key)
        try Data(apns.certificatePEM.utf8).write(to: roots)
        let secret = Data((0..<DeviceTokenKeys.keyBytes).map { _ in UInt8.random(in: 0...255) })
        settings.delivery.tokenKeys = ["demo": secret.base64EncodedString()]
        settings.delivery.apnsKeys = [SampleWorld.bank: "TEAM/KEY/\(key.path)"]
        settings.delivery.apnsURL = apns.url
        settings.delivery.trustRoots = roots.path
        // A demo may run for long, and shows a push for each change that is not gathered with others.
        settings.delivery.service.policy.minimumSpacing = .seconds(5)
        settings.delivery.service.policy.dailyBudget = 100_000
    }

    func run() async throws {
        var values = try settings.load(requiring: ["postgres.url"]).settings
        values.role = .all
        // Its own cluster, so that only the demo's events are counted.
        values.kafka.bootstrapServers = nil
        values.kafka.embedded = true
        values.api.port = 0
        values.providers.allowPrivateNetworks = ["127.0.0.0/8"]
        if !settings.assignments.contains(where: { $0.hasPrefix("log.level=") }) { values.logLevel = .warning }
        let logger = values.logger()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-demo-\(String.randomID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let apns = try await APNsStandIn.start()
        try configureDelivery(&values, by: apns, in: folder)
        let token = keep ? try await configureConsole(&values, in: folder) : nil
        let demo = try Demo(plan: self, settings: values, apns: apns, token: token, logger: logger)
        try await demo.prepare()
        try await Program.run(demo.services, logger: logger)
        switch demo.failedChecks.withLock({ $0 }) {
        case nil: throw CommandFailure(.failure, "the demo was stopped before its end")
        case 0?: return
        case let lost?: throw CommandFailure(.failure, "\(lost) checks failed: see the summary")
        }
    }
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
            ("provider requests", "\(answered.requests) of \(Figure.digits(answered.meanBatch)) timelines"),
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

/// Shows the progress: redrawn in place on a terminal, a plain line every five seconds elsewhere.
struct DemoScreen {
    let start = ContinuousClock.now
    private let isTerminal = isatty(STDOUT_FILENO) == 1
    /// Rows that the next frame replaces.
    private var drawn = 0
    private var lastLine: ContinuousClock.Instant?

    mutating func show(_ title: String, _ facts: [(name: String, value: String)]) {
        guard isTerminal else {
            if let lastLine, lastLine.duration(to: .now) < .seconds(5) { return }
            lastLine = .now
            return say("\(title): " + facts.map { "\($0.name) \($0.value)" }.joined(separator: ", "))
        }
        erase()
        print("\n  \(title)")
        for (name, value) in facts { print("  " + name.padding(toLength: 22, withPad: " ", startingAt: 0) + value) }
        drawn = facts.count + 2
        fflush(nil)
    }

    /// A line that stays above the redrawn part.
    mutating func say(_ text: String) {
        erase()
        print(text)
        fflush(nil)
    }

    private mutating func erase() {
        if drawn > 0 { print("\u{1B}[\(drawn)A\u{1B}[J", terminator: "") }
        drawn = 0
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
