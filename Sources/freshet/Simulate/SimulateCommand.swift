import ArgumentParser
import Foundation
import FreshetService
import WidgetEvents
import WidgetModel
import WidgetRepresentation
import WidgetSimulator

struct SimulateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Shows what a manifest would do to widgets and providers, in virtual time.",
        discussion: """
            Runs the rules of the service over synthetic people, or over events, without PostgreSQL and Kafka: budgets, \
            spacing, deferrals, shared timelines and stacks. Shows the reloads of each kind against its budget, how \
            old the content is that people see, and the load of each provider. The same seed gives the same result.

            Timelines come from providers that are made up (--refresh), from the sample provider (--sample), or from a \
            provider over HTTP, which then answers for all kinds (--provider). An answer over HTTP is for the present; its \
            dates are moved to the virtual time.

            With --replay it reads the events of a time span from Kafka, or from --events, and compares the manifest with \
            changes: each --budget, --spacing, --varies-by and --sharing is one alternative, and all of them together \
            another. Widgets and stacks are those of the topic of widgets, as far back as it goes; views, pushes and other \
            events are read from the begin of the warm-up on. What really happened stands beside, as far as the topics of \
            timelines and decisions tell.

            Of each kind: reloads of a timeline on a day, and how many of them took from the budget, with the budgets in \
            effect; the most such reloads of a timeline on a day; deferrals by rule; the wait from a request to its reload; \
            the age of what people saw, since it was fetched; and the share of views of content that was requested anew or \
            past its policy's time. p50, p95 and p99 are the values that 50, 95 and 99 % of the cases do not exceed.

            Examples:
              freshet simulate --manifest bank.yaml --from 2026-06-22 --days 7 --report week.html
              freshet simulate --manifest bank.yaml --provider http://127.0.0.1:8090/bank --people 20 --days 2
              freshet simulate --manifest bank.yaml --events events.jsonl --people 0 --json
              freshet simulate --manifest bank.yaml --replay --budget DueDate=20 --spacing DueDate=15m
            """)

    @Option(help: "The manifest of the kinds.")
    var manifest: String

    @Flag(help: "Ask the sample provider.")
    var sample = false

    @Option(help: ArgumentHelp("Ask this provider for all kinds.", valueName: "url"))
    var provider: String?

    @Option(
        help: "Interval of reloads by policy of made-up providers, such as 30m.", transform: OptionText.duration)
    var refresh: Duration?

    @Option(
        help:
            "First day, or time, of what is counted. Default: today; with --events, the first event's day; with --replay, yesterday.",
        transform: SimulationTime.parse)
    var from: Timestamp?

    @Option(help: "End of a replay; a day after --from by default.", transform: SimulationTime.parse)
    var to: Timestamp?

    @Option(help: "Days that are counted; 7 by default.", transform: OptionText.number(1...366))
    var days: Int?

    @Option(
        help: "Days before --from that are simulated and not counted; 3 by default.",
        transform: OptionText.number(0...60))
    var warmUp = 3

    @Option(help: "JSON lines with events and their times.")
    var events: String?

    @Option(help: "Synthetic people; 200 by default, none with --events.", transform: OptionText.number(0...1_000_000))
    var people: Int?

    @Option(help: "Share of people with a stack, from 0 to 1; 0.5 by default.", transform: OptionText.number(0.0...1))
    var stacks: Double?

    @Option(help: "Seed of everything random.")
    var seed: UInt64 = 1

    @Option(help: "Write a page with charts to this file.")
    var report: String?

    @Flag(help: "Compare what happened with changes of the manifest.")
    var replay = false

    @OptionGroup(title: "Alternatives of a replay") var changes: ManifestChanges

    @OptionGroup var output: OutputOptions

    func validate() throws {
        if sample, provider != nil { throw ValidationError("expected one of --sample and --provider") }
        if !replay, !changes.all.isEmpty || to != nil {
            throw ValidationError("--to, --budget, --spacing, --varies-by and --sharing need --replay")
        }
        if replay, days != nil { throw ValidationError("--replay: expected --from and --to instead of --days") }
        if replay, stacks != nil {
            throw ValidationError("--replay: expected without --stacks, since the stacks are those of the events")
        }
        if replay, people ?? 0 > 0 { throw ValidationError("--replay: expected without --people") }
        if let from, let to, to <= from { throw ValidationError("--to: expected a time after --from") }
    }

    func run() async throws {
        let manifest = try Manifest.read(path: manifest, environment: ProcessInfo.processInfo.environment)
        if replay { return try await ManifestReplay(command: self, manifest: manifest).run() }
        var events: [TimedEvent] = []
        if let path = self.events {
            events = try await SimulationEvents.read(path, .distantPast ..< .distantFuture).events
        }
        let first = SimulationTime.midnight(events.first?.time ?? WallClock.now())
        var options = SimulationOptions(from: from ?? first, days: days ?? 7)
        options.warmUpDays = warmUp
        options.seed = seed
        if self.events != nil { try SimulationEvents.check(events, in: options.from..<options.end) }
        events = SimulationEvents.state(of: events, at: options.begin)
        let people = people ?? (self.events == nil ? 200 : 0)
        let began = ContinuousClock.now
        var population = Population.Options(people: people)
        population.stacks = stacks ?? 0.5
        let report = try await withSource(manifest) { source in
            try await simulationReport(
                manifest.apps.map(\.definition), population, events: events, options: options, source: source)
        }
        let seconds = began.duration(to: .now) / .seconds(1)
        try write([("Simulation", report)])
        output.print(report.json, or: SimulationText(report: report, seconds: seconds).text)
    }

    /// Writes the page with charts.
    func write(_ reports: [(name: String, report: SimulationReport)]) throws {
        if let report { try TextFile.write(SimulationPage.html(reports), to: report) }
    }

    /// Lends the providers of the simulation.
    func withSource<Value>(
        _ manifest: Manifest, _ body: (any TimelineSource) async throws -> Value
    ) async throws -> Value {
        if sample { return try await body(AnsweredSource.sample(seed: seed)) }
        guard let provider else {
            return try await body(refresh.map { SyntheticSource(refresh: $0) } ?? SyntheticSource())
        }
        do throws(ModelError) {
            _ = try ProviderURL(provider)
        } catch {
            throw CommandFailure(.usage, "--provider \(Text.quoted(provider)): \(error.message)")
        }
        let settings = try Desk.settings(output.settings)
        return try await ProviderProbe(settings).withClient { client in
            try await body(AnsweredSource.http(provider, secrets: manifest.secrets, client: client))
        }
    }
}

/// Times in options.
enum SimulationTime {
    /// A date, whose midnight in UTC it is, or an RFC 3339 time.
    @Sendable static func parse(_ text: String) throws -> Timestamp {
        guard let time = Timestamp(rfc3339: LocalDay.isValid(text) ? "\(text)T00:00:00Z" : text) else {
            throw ValidationError("\(Text.quoted(text)): expected a date such as 2026-06-22, or an RFC 3339 time")
        }
        return time
    }

    /// The latest midnight in UTC.
    static func midnight(_ time: Timestamp) -> Timestamp {
        Timestamp(microseconds: time.microseconds - time.microseconds % 86_400_000_000)
    }
}
