import HTTPTypes
import Hummingbird
import JSON
import NIOCore
import PostgresClient
import ReloadIngest
import WidgetModel
import WidgetRepresentation
import WidgetSimulator
import WidgetStore

/// Routes that only the pages of the console call, within the process: the HTTP API does not serve them.
///
/// Each that is not a `GET` runs for a form that an operator sent, and is audited.
struct ConsoleRoutes: Sendable {
    /// Most dead letters in a list.
    static let letterLimit = 200
    /// Most dead letters that one action replays or discards.
    private static let settleLimit = 10_000
    /// Interval of the refreshes of a page that changes.
    private static let refreshInterval = Duration.seconds(5)
    private static let longestStream = Duration.seconds(3_600)

    let parts: RouteDependencies
    let configuration: ConsoleConfiguration
    private let simulations = SimulationTurn()

    private static let filter = ["cause", "topic", "since", "until", "all", "letter"]

    var all: [APIRoute] {
        [
            APIRoute("consoleStatistics", .get, "statistics", .app(.operateRead), query: ["days"], handle: statistics),
            APIRoute("consoleFindings", .get, "findings", .app(.operateRead)) { call in
                Response(["findings": .array(await configuration.findings(call.app))])
            },
            APIRoute("consoleManifest", .post, "manifest", .app(.operateRead), isAudited: true, handle: compare),
            APIRoute("consoleSimulation", .post, "simulation", .app(.operateRead), isAudited: true, handle: simulate),
            APIRoute("consoleForecast", .get, "kinds/{kind}/forecast", .app(.operateRead), handle: forecast),
            APIRoute("consoleBudget", .get, "kinds/{kind}/budget", .app(.operateRead), handle: budget),
            APIRoute("consoleCancel", .post, "kinds/{kind}/cancellation", .app(.operate), handle: cancel),
            APIRoute("consoleStacks", .get, "users/{user}/stacks", .app(.operateRead), handle: stacks),
            APIRoute(
                "consoleLetters", .get, "letters", .app(.operateRead), query: Self.filter + ["limit"], handle: letters),
            APIRoute("consoleReplay", .post, "letters/replay", .app(.operate), query: Self.filter + ["dryRun"]) {
                try await settle($0, discards: false)
            },
            APIRoute("consoleDiscard", .post, "letters/discard", .app(.operate), query: Self.filter + ["dryRun"]) {
                try await settle($0, discards: true)
            },
            APIRoute("consoleWatch", .get, "changes", .app(.operateRead), query: ["widget"], handle: watch),
        ]
    }

    // MARK: Kinds

    private func statistics(_ call: APICall) async throws -> Response {
        let days = try call.integer("days", in: 1...400, default: 1)
        let rows = try await parts.store.query(.readKindStatistics(app: call.app, days: days))
        let kinds = try await parts.store.query(.listKinds(app: call.app)).readable
        let delivery = try await DeliveryReport(
            of: call.app, kinds: kinds, days: days, objective: parts.resources.objective, from: parts.store)
        let limits = kinds.map { kind in
            let objective = kind.definition.freshnessObjective ?? parts.resources.objective
            return JSONObject.Member(key: kind.definition.name, value: .count(objective.wholeMilliseconds))
        }
        return Response(
            KindReport(rows, delivery: delivery).json(app: call.app, days: days)
                .adding("objectives", .object(JSONObject(limits))))
    }

    /// The reloads of today (UTC) per timeline, and the daily budget of a timeline.
    private func budget(_ call: APICall) async throws -> Response {
        let kind = try await parts.kind(of: call)
        let rows = try await parts.store.query(.readKindStatistics(app: call.app, days: 1))
        let counted = Statements.countTimelines(kindID: kind.id, limit: WidgetStore.timelineCountLimit)
        let timelines = try await parts.store.query(counted).first ?? 0
        // The count ends at a limit.
        let isCounted = timelines > 0 && timelines < WidgetStore.timelineCountLimit
        let today = rows.first { Text.equal($0.kind, kind.definition.name) }?.counters ?? KindCounters()
        let budget = kind.definition.dailyBudget ?? DailyBudget()
        return Response([
            "average": .rounded(
                isCounted ? Double(today.reloaded + today.unchanged) / Double(timelines) : nil),
            "timelines": .count(timelines), "minimum": .count(budget.minimum), "maximum": .count(budget.maximum),
        ])
    }

    /// Scheduled reloads of a kind in the next 24 hours.
    private func forecast(_ call: APICall) async throws -> Response {
        let kind = try await parts.kind(of: call)
        let rows = try await parts.store.query(.forecastDue(app: call.app, hours: 24))
        return Response(Forecast(rows.filter { Text.equal($0.kind, kind.definition.name) }, hours: 24).json)
    }

    private func cancel(_ call: APICall) async throws -> Response {
        guard let done = try await parts.store.cancelWork(app: call.app, kind: try call.path("kind")) else {
            throw Problem.notFound
        }
        return Response(["sweeps": .count(done.sweeps), "timelines": .count(done.timelines)])
    }

    /// Changes that a manifest would make, with the old and the new value of each field.
    private func compare(_ call: APICall) async throws -> Response {
        let apps = try definitions(try await call.body()["manifest"]?.stringValue ?? "", of: call.app)
        let changes = try await parts.store.difference(apps)
        let old = try await parts.store.query(.listKinds(app: call.app)).readable.filter { !$0.isRetired }
        let new = apps.flatMap(\.kinds)
        let limit = WidgetStore.timelineCountLimit
        let items = changes.map { change -> JSONValue in
            let before = old.first { Text.equal($0.definition.name, change.kind) }?.definition.json().objectValue
            let after = new.first { Text.equal($0.name, change.kind) }?.json().objectValue
            var differences: [JSONValue] = []
            if let before, let after {
                let names = before.keys + after.keys.filter { before[$0] == nil }
                differences = names.filter { before[$0] != after[$0] }.map { name in
                    [
                        "field": .string(name), "old": .text(before[name].map(PrettyJSON.text)),
                        "new": .text(after[name].map(PrettyJSON.text)),
                    ]
                }
            }
            let moving = change.moving.map {
                "\($0 < limit ? "" : "at least ")\(ConsoleView.grouped("\(min($0, limit))"))"
            }
            return change.json.adding("differences", .array(differences)).adding("moving", .text(moving))
        }
        return Response(["changes": .array(items)])
    }

    /// The definitions of a manifest, which must be those of the token's app.
    private func definitions(_ text: String, of app: String) throws -> [AppDefinition] {
        let apps: [AppDefinition]
        switch configuration.readManifest(text) {
        case .success(let found): apps = found
        case .failure(let problem): throw Problem.unprocessable("/manifest", problem.text)
        }
        if let other = apps.first(where: { !Text.equal($0.name, app) }) {
            throw Problem.unprocessable("/manifest", "the app \(Text.quoted(other.name)) is not the token's")
        }
        return apps
    }

    /// A simulation of a manifest, or of the app's kinds as they are.
    private func simulate(_ call: APICall) async throws -> Response {
        let fields = try await call.body()
        let simulation = try ConsoleSimulation(.object(fields), now: WallClock.now())
        let app: AppDefinition
        if let text = fields["manifest"]?.stringValue {
            let apps = try definitions(text, of: call.app)
            app = AppDefinition(
                name: call.app, developerMode: apps.contains(where: \.developerMode), kinds: apps.flatMap(\.kinds))
        } else {
            let kinds = try await parts.store.query(.listKinds(app: call.app)).readable.filter { !$0.isRetired }
            app = AppDefinition(
                name: call.app, developerMode: kinds.first?.isDeveloperMode ?? false, kinds: kinds.map(\.definition))
        }
        let report = try await simulations.run {
            try await simulation.run(app, rotation: parts.resources.rotation)
        }
        let name = "\(report.people) people, \(report.days) days from \(report.from.prefix(10))"
        return Response(["section": .string(SimulationPage.section(name, report).text)])
    }

    // MARK: People

    /// All stacks of a user, explained.
    private func stacks(_ call: APICall) async throws -> Response {
        let user = try call.path("user")
        let names = try await parts.store.stacks(of: user, app: call.app).map(\.name)
        var items: [JSONValue] = []
        for name in Set(names).sorted() {
            let explained = try await parts.store.explainStacks(
                named: name, of: user, app: call.app, policy: parts.resources.rotation, at: WallClock.now())
            items += explained.map { ["plan": $0.plan.json, "now": $0.explanation.json] }
        }
        return Response(["stacks": .array(items)])
    }

    // MARK: Dead letters

    private func selection(_ call: APICall) throws -> DeadLetterFilter {
        var filter = DeadLetterFilter(owner: .app(call.app))
        if let name = call.text("cause") {
            guard let cause = DeadLetterCause(rawValue: name) else { throw Problem.parameter("cause", "is not known") }
            filter.causes = [cause]
        }
        filter.topic = call.text("topic")
        filter.since = try call.time("since")
        filter.until = try call.time("until")
        if let text = call.text("letter") {
            guard let id = Int64(text) else { throw Problem.parameter("letter", "expected a number") }
            filter.ids = [id]
        }
        return filter
    }

    private func letters(_ call: APICall) async throws -> Response {
        let limit = try call.integer("limit", in: 1...Self.letterLimit, default: Self.letterLimit)
        let filter = try selection(call)
        let found =
            try call.flag("all")
            ? try await parts.store.query(.listAllDeadLetters(filter, limit: limit))
            : try await parts.store.query(.listDeadLetters(filter, limit: limit))
        return Response(["letters": .array(found.map(\.json)), "more": .bool(found.count == limit)])
    }

    /// Replays or discards the selected letters; a dry run reports what would happen.
    private func settle(_ call: APICall, discards: Bool) async throws -> Response {
        let (selection, isRehearsal) = (try selection(call), try call.flag("dryRun"))
        let filter = discards ? selection.withoutWaitingEvents : selection
        let store = parts.store
        guard discards else {
            let outcome = try await parts.replay(filter, limit: Self.settleLimit, isRehearsal: isRehearsal)
            let isLimited = outcome.replayed + outcome.failed >= Self.settleLimit
            return Response(JSONValue.object(outcome.json).adding("isLimited", .bool(isLimited)))
        }
        let count =
            isRehearsal
            ? try await store.query(Statements.countDeadLetters(filter, limit: Self.settleLimit)).first ?? 0
            : try await store.query(.discardDeadLetters(filter, limit: Self.settleLimit)).count
        return Response(["discarded": .count(count), "isLimited": .bool(count == Self.settleLimit)])
    }

    // MARK: Live parts

    /// Server-sent events `changed` for a page: at every change of the widget's timeline, and at an interval.
    private func watch(_ call: APICall) async throws -> Response {
        var keys: Set<TimelineChanges.Key> = []
        if let widget = try call.identifier("widget") {
            let statement = Statements.readWidgetTimeline(app: call.app, widget: widget)
            guard let timeline = try await parts.store.query(statement).first else { throw Problem.notFound }
            keys = [.timeline(timeline.id)]
        }
        let watch = try parts.watch(.stream, keys, for: call)
        let end = ContinuousClock.now + min(Self.longestStream, max(.zero, call.principal.expiresAt - WallClock.now()))
        return Response { writer in
            while ContinuousClock.now < end {
                guard await watch.wait(atMost: Self.refreshInterval) != .ended,
                    (try? await call.checkToken()) != nil
                else { break }
                try await writer.write(ByteBuffer(string: "event: changed\ndata:\n\n"))
            }
        }
    }
}
