// SPDX-License-Identifier: Apache-2.0

package import ArgumentParser
import Foundation
import FreshetService
import JSON
import ReloadWorkers
import SampleProvider
import WidgetAPI
import WidgetEvents
import WidgetModel
import WidgetSimulator

package struct SimulateCommand: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
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
              freshet simulate --manifest bank.yaml --from today --days 7 --report week.html
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
            "First day, such as 2026-06-22 or yesterday, or time, of what is counted. Default: today; with --events, the first event's day; with --replay, yesterday.",
        transform: Self.time)
    var from: Timestamp?

    @Option(help: "End of a replay; a day after --from by default.", transform: Self.time)
    var to: Timestamp?

    @Option(help: "Days that are counted; 7 by default.", transform: OptionText.number(1...366))
    var days: Int?

    @Option(
        help: "Days before --from that are simulated and not counted.",
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

    /// A date, whose midnight in UTC it is, or a time.
    private static func time(_ text: String) throws -> Timestamp {
        let day = OptionText.date(text, .utc).flatMap { LocalClock.utc.day(of: $0) }
        guard let time = day?.lowerBound ?? (try? OptionText.time(text)) else {
            throw ValidationError("\(Text.quoted(text)): expected \(OptionText.dateForm), or \(OptionText.timeForm)")
        }
        return time
    }

    package init() {}

    package func validate() throws {
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

    package func run() async throws {
        let manifest = try Manifest.read(path: manifest, environment: ProcessInfo.processInfo.environment)
        if replay { return try await replay(manifest) }
        var events: [TimedEvent] = []
        if let path = self.events {
            events = try await readEvents(ofFile: path, in: .distantPast ..< .distantFuture).events
        }
        let first = (events.first?.time ?? Timestamp.now()).midnight
        var options = SimulationOptions(from: from ?? first, days: days ?? 7)
        options.warmUpDays = warmUp
        options.seed = seed
        if self.events != nil { try requireEvents(events, in: options.from..<options.end) }
        events = arrangedEvents(events, at: options.begin)
        options.people = people ?? (self.events == nil ? 200 : 0)
        if let stacks { options.stacks = stacks }
        let began = ContinuousClock.now
        let report = try await withSource(manifest, SimulationProgress(options)) { source in
            try await simulationReport(
                manifest.map(\.definition), events: events, options: options, source: source)
        }
        let seconds = began.duration(to: .now) / .seconds(1)
        try write([("Simulation", report)])
        output.print(report.json, or: report.text(seconds: seconds))
    }

    /// Writes the page with charts.
    func write(_ reports: [(name: String, report: SimulationReport)]) throws {
        if let report { try SimulationReport.page(reports).save(to: report) }
    }

    /// Lends the providers of the simulation.
    ///
    /// - Parameter progress: shows how far a simulation with a provider over HTTP is.
    func withSource<Value>(
        _ manifest: [Manifest], _ progress: SimulationProgress, _ body: (any TimelineSource) async throws -> Value
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
        manifest.complainAboutMissingSecrets(remedy: "give signingSecret in it")
        let settings = try ProviderTrial.settings(output.settings)
        defer { Terminal.endProgress() }
        return try await settings.withProviderClient { client in
            var source = AnsweredSource.http(provider, secrets: manifest.secrets, client: client)
            source.progress = progress
            return try await body(source)
        }
    }
}

/// Alternatives of a replay, given as options.
struct ManifestChanges: ParsableArguments {
    @Option(
        help: ArgumentHelp("Budget of a kind: one number, or least and most.", valueName: "[app/]kind=8..70"),
        transform: Self.budget)
    var budget: [Change] = []

    @Option(
        help: ArgumentHelp("Least time between two budgeted reloads of a kind.", valueName: "[app/]kind=15m"),
        transform: Self.spacing)
    var spacing: [Change] = []

    @Option(
        help: ArgumentHelp("Properties by which a kind's timelines differ.", valueName: "[app/]kind=family,locale"),
        transform: Self.variesBy)
    var variesBy: [Change] = []

    @Option(
        help: ArgumentHelp("Whether a kind's timelines belong to users.", valueName: "[app/]kind=shared"),
        transform: Self.sharing)
    var sharing: [Change] = []

    var all: [Change] { budget + spacing + variesBy + sharing }

    /// The alternatives with their names: each change, and all of them.
    func alternatives(of apps: [AppDefinition]) throws(CommandFailure) -> [(name: String, apps: [AppDefinition])] {
        var alternatives: [(name: String, apps: [AppDefinition])] = []
        var together = apps
        for change in all {
            var changed = apps
            try Self.apply(change, to: &changed)
            try Self.apply(change, to: &together)
            alternatives.append((change.name, changed))
        }
        if all.count > 1 { alternatives.append(("all changes", together)) }
        return alternatives
    }

    /// A change of the kinds with a name, of all apps or of one: `Kind` or `app/Kind`.
    typealias Change = (name: String, kind: String, apply: @Sendable (inout KindDefinition) -> Void)

    private static func apply(_ change: Change, to apps: inout [AppDefinition]) throws(CommandFailure) {
        var isFound = false
        for app in apps.indices {
            for index in apps[app].kinds.indices {
                let name = apps[app].kinds[index].name
                guard Text.equal(name, change.kind) || Text.equal("\(apps[app].name)/\(name)", change.kind) else {
                    continue
                }
                change.apply(&apps[app].kinds[index])
                isFound = true
            }
        }
        guard !isFound else { return }
        let names = apps.flatMap { $0.kinds.map(\.name) }
        let hint = change.kind.hint(among: names)
        throw CommandFailure(.usage, "the manifest has no kind \(Text.quoted(change.kind))\(hint)")
    }

    private static func parts(of text: String, form: String) throws -> (kind: String, value: String) {
        let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
        guard parts.count == 2 else { throw ValidationError("\(Text.quoted(text)): expected \(form)") }
        return (parts[0], parts[1])
    }

    @Sendable static func budget(_ text: String) throws -> Change {
        let (kind, value) = try parts(of: text, form: "KIND=20 or KIND=8..70")
        let bounds = value.replacing("..", with: ".").split(separator: ".").compactMap { Int($0) }
        guard let least = bounds.first, let most = bounds.last, bounds.count < 3, (1...1_000).contains(least),
            (least...1_000).contains(most)
        else { throw ValidationError("\(Text.quoted(value)): expected a budget such as 20 or 8..70") }
        return (
            "budget \(text)", kind,
            {
                $0.dailyBudget = DailyBudget(minimum: least, maximum: most)
            }
        )
    }

    @Sendable static func spacing(_ text: String) throws -> Change {
        let (kind, value) = try parts(of: text, form: "KIND=15m")
        let spacing = try OptionText.duration(value)
        return ("spacing \(text)", kind, { $0.minimumSpacing = spacing })
    }

    @Sendable static func variesBy(_ text: String) throws -> Change {
        let (kind, value) = try parts(of: text, form: "KIND=family,locale or KIND=none")
        var variation: KindVariation = []
        for name in value == "none" ? [] : value.split(separator: ",") {
            guard let one = KindVariation(name: String(name)) else {
                let known = KindVariation.named.map(\.name).joined(separator: ", ")
                throw ValidationError("\(Text.quoted(String(name))): expected none, or some of \(known)")
            }
            variation.formUnion(one)
        }
        let result = variation
        return ("variesBy \(text)", kind, { $0.variesBy = result })
    }

    @Sendable static func sharing(_ text: String) throws -> Change {
        let (kind, value) = try parts(of: text, form: "KIND=shared or KIND=perUser")
        guard let sharing = KindSharing(name: value) else {
            throw ValidationError("\(Text.quoted(value)): expected shared or perUser")
        }
        return ("sharing \(text)", kind, { $0.sharing = sharing })
    }
}

/// A provider of JSON for a simulation.
struct AnsweredSource: TimelineSource {
    /// Body of an answer to a request's body.
    let ask: (_ body: [UInt8], _ targets: ArraySlice<SimulatedTarget>, _ now: Timestamp) async throws -> [UInt8]
    /// Time of day by which the provider dates its answers; nil: the virtual time.
    let present: (@Sendable () -> Timestamp)?
    /// Told of each request; nil for a provider in this process, which answers at once.
    var progress: SimulationProgress?

    mutating func fetch(
        _ targets: ArraySlice<SimulatedTarget>, at now: Timestamp, into outcomes: inout [SimulatedFetch]
    ) async throws {
        let body = ProviderEndpoint.encode(timelines: targets.map { (id: $0.id, identity: $0.identity) })
        let requested = targets.map {
            RequestedTimeline(
                $0.id, volatileFields: $0.definition.volatilePointers, family: $0.identity.family)
        }
        progress?.countRequest(at: now)
        do {
            let answer = try await ask(body, targets, now)
            let shift = present.map { now - $0() } ?? .zero
            let response: ProviderResponse
            do throws(JSONError) {
                response = try ProviderResponse.parse(answer, requested: requested)
            } catch {
                throw ProviderFailure(error)
            }
            for outcome in response.outcomes {
                switch outcome {
                case .success(let parsed): outcomes.append(.answer(SimulatedAnswer(parsed, at: now, movedBy: shift)))
                case .failure(let failure):
                    outcomes.append(.failure(failure.rule, retryAfter: failure.retryAfter))
                }
            }
        } catch let failure as ProviderFailure {
            for _ in targets { outcomes.append(.failure(failure.rule, retryAfter: failure.retryAfter)) }
        }
    }

    /// The sample provider in this process, in virtual time.
    static func sample(seed: UInt64) -> AnsweredSource {
        // Content changes with time and not with requests, as in an app.
        let provider = SampleProvider(seed: seed, changeInterval: .seconds(300))
        return AnsweredSource(
            ask: { body, _, now in
                guard let answer = provider.timelines(body, at: now) else {
                    throw ProviderFailure(.status, "the sample provider does not have this kind", status: 404)
                }
                return answer
            }, present: nil)
    }

    /// A provider over HTTP. It answers for the present; the dates of its answers are moved to the virtual time.
    ///
    /// - Parameter secrets: signing secrets by app.
    static func http(_ url: String, secrets: [String: [UInt8]], client: ProviderClient) -> AnsweredSource {
        AnsweredSource(
            ask: { body, targets, _ in
                guard let first = targets.first else { return [] }
                return try await client.fetch(
                    ProviderCall(
                        url: url, secrets: [secrets[first.identity.app] ?? Array(repeating: 0, count: 32)], body: body,
                        timeout: first.definition.timeout, maximumResponseBytes: 16 << 20))
            }, present: Timestamp.now)
    }
}
