// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import ReloadIngest
import WidgetEvents
import WidgetModel
import WidgetStore

/// Pages of the console and the actions of their forms, with paths below the console.
extension Console {
    static let pages: [(path: String, render: @Sendable (ConsoleVisit) async throws -> Response)] = [
        ("", { try await $0.overview().response() }),
        ("/doctor", { try await $0.doctor().response() }),
        ("/kinds", { try await $0.kinds().response() }),
        ("/kinds/{kind}", { try await $0.kind().response() }),
        ("/manifest", { $0.manifest().response() }),
        ("/simulator", { $0.simulator().response() }),
        ("/widgets", { try await $0.widgets().response() }),
        ("/widgets/{widget}", { try await $0.widget().response() }),
        ("/widgets/{widget}/form", { try await $0.configurationForm().response() }),
        ("/dead-letters", { try await $0.deadLetters().response() }),
        ("/dead-letters/{letter}", { try await $0.deadLetter().response() }),
        ("/providers", { try await $0.providers().response() }),
        ("/actions", { try await $0.actions().response() }),
        (
            "/live",
            { visit in
                let widget = try visit.call.identifier("widget")
                return try await visit.run("consoleWatch") { try await $0.changes(of: widget, for: $1) }
            }
        ),
    ]

    static let actions: [(path: String, run: @Sendable (ConsoleVisit) async throws -> Response)] = [
        ("/app/{action}", { try await $0.act(onKind: nil) }),
        ("/kinds/{kind}/{action}", { try await $0.act(onKind: try $0.call.path("kind")) }),
        ("/widgets/{widget}/reload", { try await $0.reload(try $0.call.path("widget")) }),
        ("/manifest", { try await $0.compare().response() }),
        ("/simulator", { try await $0.simulate().response() }),
        // The action is named `letter`, since the router requires the name of the page's parameter above.
        ("/dead-letters/{letter}", { try await $0.endDeadLetters().response() }),
    ]
}

// MARK: Actions

extension ConsoleVisit {
    /// Messages after actions, by the name in a link. The texts are fixed, so that a link cannot inject its own.
    private static let messages = [
        "pause": "Reloads are paused. Events are still applied.", "resume": "Reloads are resumed.",
        "cancel": "Pending reloads of everyone are cancelled; those of single users, devices and widgets remain.",
        "reload": "The reload is requested.",
        "replay": "Replayed.", "discard": "Discarded.",
    ]

    var message: String { call.text("done").flatMap { Self.messages[$0] } ?? "" }

    func finished(_ action: String, at path: String, _ values: [(name: String, value: String?)] = []) -> Response {
        console.redirect(to: Self.link(path, values + [("done", action)]))
    }

    func reload(_ widget: String) async throws -> Response {
        try await run("requestReload", .accepted) { routes, caller in
            let request = ReloadRequest(app: caller.app, audience: .widget(widget), kinds: .all, reason: .operator)
            try await routes.publish(FreshetEvent(request), for: caller)
        }
        return finished("reload", at: "/widgets/\(Text.percentEncoded(widget))")
    }
}

// MARK: - Kinds

extension ConsoleVisit {
    func kinds() async throws -> ConsolePage {
        let counts = try await run("consoleStatistics") { try await $0.statistics(days: 1, for: $1) }.report.kinds
        let found = try await run("listKinds") { try await $0.kinds(for: $1) }
        let states = try await widgetStates(WidgetFilter(app: app)).byKind
        let named = found.map { kind, move in (kind, move, KindState(kind, states[kind.definition.name] ?? [:])) }
        let wanted = try call.choice("state", of: KindState.self)
        let kinds = named.filter { wanted == nil || $0.2 == wanted }.map { kind, move, state -> JSONValue in
            let name = kind.definition.name
            return kind.json(move: move).adding("name", .string(name))
                .adding("state", .string(state.rawValue)).adding("style", .string(state.style))
                .adding("counts", counts.first { Text.equal($0.name, name) }?.total.json ?? .null)
        }
        let forecast = try await run("getForecast") { try await $0.forecast(hours: 24, for: $1) }
        return page(
            "kinds", title: "Kinds",
            [
                "kinds": JSONValue.array(kinds),
                "pause": found.lazy.compactMap(\.kind.appPause).first?.json ?? .null,
                "states": Self.tabs(
                    at: "/kinds", [], chosen: wanted,
                    KindState.allCases.map { state in (state, named.count { $0.2 == state }) }),
                "isEmpty": kinds.isEmpty, "forecast": ConsolePage.chart(of: forecast),
            ])
    }

    func kind() async throws -> ConsolePage {
        let name = try call.path("kind")
        let (kind, move) = try await run("getKind") { routes, caller in
            let kind = try await routes.kind(name, for: caller)
            return (kind, try await routes.move(of: kind, for: caller))
        }
        let report = try await run("consoleStatistics") { try await $0.statistics(days: 7, for: $1) }.report
        let days = report.kinds.first { Text.equal($0.name, name) }?.days.reversed().map { day, counters in
            counters.json.adding("day", .string(day))
        }
        let delivery = report.delivery.kinds.first { Text.equal($0.kind, name) }
        let forecast = try await run("consoleForecast") { try await $0.forecast(hours: 24, kind: name, for: $1) }
        var view = kind.json(move: move).objectValue.map(ConsolePage.members) ?? [:]
        view["name"] = name
        view["days"] = JSONValue.array(days ?? [])
        view["delivery"] = delivery.map { DeliveryReport.json(of: $0.kind, $0.totals) } ?? .null
        view["json"] = kind.definition.json().pretty
        let use = try await run("consoleBudget") { try await $0.budgetUse(of: kind, for: $1) }
        view["use"] = Self.words(of: use.timelines, average: use.average)
        view["budget"] = budget(of: kind)
        view["budgetLeft"] = use.left?.json ?? .null
        view["developerMode"] = kind.isDeveloperMode
        view["forecast"] = ConsolePage.chart(of: forecast)
        return page("kind", title: name, view)
    }

    /// Reloads of today (UTC) per timeline, free ones included.
    private static func words(of timelines: Int, average: Double?) -> String {
        guard let average else { return timelines == 0 ? "no timelines" : "too many timelines for an average" }
        return "\(ConsolePage.words(average)) on average, free ones included"
    }

    private func budget(of kind: RegisteredKind) -> String {
        let budget = kind.rules.budget
        return kind.isDeveloperMode
            ? "lifted by developer mode" : "\(budget.minimum) to \(budget.maximum) in any 24 h, by the views"
    }

    // MARK: Manifests

    func manifest(_ text: String = "", _ shown: [String: Any] = [:]) -> ConsolePage {
        page("manifest", title: "Compare a manifest", shown.merging(["manifest": text]) { $1 })
    }

    func compare() async throws -> ConsolePage {
        let text = (call.text("manifest") ?? "").replacing("\r\n", with: "\n")
        do throws(Problem) {
            let changes = try await run("consoleManifest") { routes, caller in
                try await routes.differences(try console.definitions(text, of: caller.app), for: caller)
            }
            let items = changes.map { change, notices, fields -> JSONValue in
                let differences = fields.map { name, old, new -> JSONValue in
                    [
                        "field": .string(name), "old": .text(old.map(\.pretty)),
                        "new": .text(new.map(\.pretty)),
                    ]
                }
                let limit = WidgetStore.timelineCountLimit
                let moving = change.moving.map { count in
                    let number = ConsolePage.grouped("\(min(count, limit))")
                    guard change.movingIsMinimum || count >= limit else { return number }
                    return count == 0 ? "an unknown number of" : "at least \(number)"
                }
                return change.json(notices).adding("differences", .array(differences)).adding("moving", .text(moving))
            }
            return manifest(text, ["hasChanges": true, "changes": JSONValue.array(items)])
        } catch {
            guard error.isOfForm else { throw error }
            return manifest(text, ["problem": error.detail])
        }
    }
}

extension Problem {
    /// Whether the sender of a form can correct it.
    var isOfForm: Bool { status.kind == .clientError && status != .forbidden }
}

// MARK: - Providers

extension ConsoleVisit {
    func providers(tested: JSONValue? = nil) async throws -> ConsolePage {
        let kinds = try await run("listKinds") { try await $0.kinds(for: $1) }.map(\.kind.definition)
        let health = console.configuration.providerHealth(app)
        let outages = try await run("consoleOutages") { try await $0.outages(for: $1) }
        let forecast = try await run("getForecast") { try await $0.forecast(hours: 24, for: $1) }.providers
        let urls = Dictionary(grouping: kinds, by: \.providerURL)
        let items = urls.sorted { $0.key < $1.key }.map { url, kinds -> JSONValue in
            let due = forecast.first { Text.equal($0.url, url) }
            return [
                "url": .string(url), "kinds": .array(kinds.map { $0.json() }), "health": health?[url] ?? .null,
                "outage": outages.first { Text.equal($0.provider, url) }?.json ?? .null,
                "forecast": .count(due?.total ?? 0), "now": .count(due?.now ?? 0),
                "firstKind": .text(kinds.first?.name),
            ]
        }
        var page = page(
            "providers", title: "Providers",
            [
                "providers": JSONValue.array(items), "isEmpty": items.isEmpty, "hasNoWorkers": health == nil,
                "latency": providerLatency, "hasLatency": !state.isShared, "tested": tested ?? .null,
            ])
        // A live update would replace the test's result.
        if tested == nil { page.live = "\(Console.base)/live" }
        return page
    }
}

// MARK: - Widgets

extension ConsoleVisit {
    /// Widgets of a user, a device or a kind. An id leads to its widget.
    func widgets() async throws -> ConsolePage {
        let filter = WidgetFilter(
            app: app, user: try call.identifier("user"), device: try call.identifier("device"),
            kind: try call.identifier("kind"), state: try call.choice("state", of: WidgetState.self),
            after: try call.cursor() ?? "")
        let id = try call.identifier("widget")
        var found: [WidgetDetail] = []
        var next: String?
        var states = WidgetStates()
        if let id {
            found = [try await run("getWidget") { try await $0.widget(id, for: $1) }].compactMap { $0 }
        } else {
            states = try await widgetStates(filter)
            (found, next) = try await run("listWidgets") { try await $0.widgets(filter, limit: 50, for: $1) }
            // The rest of the widgets may have the state, too.
            if next == nil, states.isTruncated { next = states.last.map { String(base64URL: $0.utf8) } }
        }
        let names = [("user", filter.user), ("device", filter.device), ("kind", filter.kind)]
        let rows = found.map { widget in
            widget.json.adding("state", .text(widget.state?.rawValue))
                .adding("style", .text(widget.state?.style))
        }
        var view: [String: Any] = [
            "widgets": JSONValue.array(rows), "isEmpty": found.isEmpty, "widget": id ?? "",
            "hasNext": next != nil, "isTruncated": states.isTruncated, "state": filter.state?.rawValue ?? "",
            "examined": ConsolePage.grouped("\(WidgetState.examined)"),
            "states": Self.tabs(
                at: "/widgets", names, chosen: filter.state,
                WidgetState.allCases.map { ($0, states.count(of: $0)) }),
        ]
        for (name, value) in names { view[name] = value ?? "" }
        if let next {
            let items = names + [("state", filter.state?.rawValue), ("cursor", next)]
            view["next"] = Self.link("/widgets", items)
        }
        return page("widgets", title: "Widgets", view)
    }

    /// One widget: why it shows what it shows.
    func widget() async throws -> ConsolePage {
        let id = try call.path("widget")
        let explained = try await run("explainWidget") { try await $0.explanation(of: id, for: $1) }
        guard let widget = try await run("getWidget", .ok, { try await $0.widget(id, for: $1) }) else {
            throw Problem.notFound
        }
        let devices = try await run("listDevices") { try await $0.devices(of: widget.user, for: $1) }
        let device = devices.first { Text.equal($0.device, widget.device) }
        let stacks = try await run("consoleStacks") { try await $0.stacks(of: widget.user, for: $1) }
            .filter { stack in stack.explanation.items.contains { $0.widget == id } }
        // A removed widget has none.
        let polled = try await run("getTimeline") { try await $0.timeline(of: id, for: $1) }
        let timeline: TimelineDetail? = if case .timeline(let detail) = polled { detail } else { nil }
        let document = try? timeline?.json()
        var view: [String: Any] = [
            "widget": widget.json, "explanation": explained.json,
            "configuration": widget.json["configuration"].map(\.pretty) ?? "",
            "steps": JSONValue.array(explained.steps(timeline, device)),
            "stacks": JSONValue.array(stacks.map { Self.json(of: $0, marking: id) }), "hasStacks": !stacks.isEmpty,
            "device": device?.json ?? .null, "message": message,
            "history": JSONValue.array(explained.explanation.timeline?.history.map(\.json) ?? []),
            "explanationJSON": explained.json.pretty, "timelineJSON": document.map(\.pretty) ?? "",
            "hasForm": try await hasForm(widget), "axis": axis(widget, timeline),
        ]
        view["revision"] = timeline?.revision.map { "\($0)" } ?? "none"
        if let timeline, timeline.content == nil { view["shown"] = (document?["shown"] ?? .null).pretty }
        var page = page("widget", title: "Widget \(id)", view)
        page.scripts.append(TimeAxis.script)
        page.styles = [TimeAxis.stylesheet]
        page.live = "\(Console.base)/live?widget=\(Text.percentEncoded(id))"
        return page
    }

    /// The stored entries on a time axis; empty without stored content.
    private func axis(_ widget: WidgetDetail, _ timeline: TimelineDetail?) -> HTML {
        guard let timeline, let content = timeline.content,
            let axis = try? TimeAxis(
                title: "Stored entries and their relevance", id: "axis", timeline: content, link: timeline.url,
                now: Timestamp.now(), timeZone: widget.environment.timeZone)
        else { return "" }
        return axis.html
    }

    private static func json(of stack: ExplainedStack, marking widget: String) -> JSONValue {
        let json = stack.explanation.json
        let items = (json["items"]?.arrayValue ?? []).map {
            $0.adding("isThis", .bool($0["widget"] == .string(widget)))
        }
        return ["plan": stack.plan.json, "hold": .text(stack.explanation.hold), "items": .array(items)]
    }

    private func hasForm(_ widget: WidgetDetail) async throws(Problem) -> Bool {
        guard mayRun("configureWidget"), widget.timelineID != nil else { return false }
        return try await find("getIntent") { try await $0.intent(of: widget.kind, for: $1) } != nil
    }

    /// The API's form of the widget's configuration, which saves with the bearer's token.
    func configurationForm() async throws -> ConsolePage {
        guard mayRun("configureWidget") else { throw Problem.insufficientScope(.widgetsWrite) }
        let id = try call.path("widget")
        guard let widget = try await run("getWidget", .ok, { try await $0.widget(id, for: $1) }) else {
            throw Problem.notFound
        }
        let form = try await run("getWidgetForm") { try await $0.form(ofWidget: id, for: $1) }
        var page = page(
            "form", title: "Configure widget \(id)",
            ["widget": widget.json, "displayName": form.form.displayName, "form": form.element])
        page.styles = ["form.css"]
        page.scripts.append("form.js")
        return page
    }
}

/// The way of a widget's content, from the request to the device.
extension ExplainedWidget {
    /// Empty for a widget without a timeline.
    fileprivate func steps(_ detail: TimelineDetail?, _ device: Registration?) -> [JSONValue] {
        guard let timeline = explanation.timeline, let explanation = explanation.explanation else { return [] }
        let facts = timeline.facts
        return [
            request(facts), decision(explanation), fetch(facts), stored(timeline),
            published(facts, revision: detail?.revision), delivered(device),
        ]
    }

    private func step(_ name: String, is state: String, at time: Timestamp?, _ text: String) -> JSONValue {
        ["name": .string(name), "state": .string(state), "at": .time(time), "text": .string(text)]
    }

    private func request(_ facts: ReloadFacts) -> JSONValue {
        let event = events.first { $0.cause.role == .request || $0.cause.role == .kind }
        let state =
            facts.isStale
            ? "\(facts.pending) pending"
            : facts.sweepsAhead == 0
                ? "all requests are rendered"
                : facts.sweepsAhead.map { "\($0) to come from a sweep" } ?? "more sweeps wait than are examined"
        let reason = event?.cause.reason.map { "for the reason \($0.name)" } ?? "by policy or placement"
        let type: String =
            if case .found(let found)? = event?.lookup { ", event \(found.event.type.rawValue)" } else { "" }
        return step("Request", is: "done", at: event?.cause.appliedAt, "Last requested \(reason)\(type); \(state)")
    }

    private func decision(_ explanation: Explanation) -> JSONValue {
        let (last, facts) = (explanation.last, explanation.facts)
        return step(
            "Decision", is: facts.decidedAt == nil ? "waiting" : facts.decision == .failed ? "failed" : "done",
            at: facts.decidedAt, "\(last.text)\(last.rule.map { " (rule \($0.name))" } ?? "")")
    }

    private func fetch(_ facts: ReloadFacts) -> JSONValue {
        guard facts.renderedAt != nil || facts.fetchTime != nil || facts.attempts > 0 else {
            return step("Fetch", is: "waiting", at: nil, "Never fetched")
        }
        let time = facts.fetchTime.map { " in \($0.wholeMilliseconds) ms" } ?? ""
        return step(
            "Fetch", is: facts.attempts == 0 ? "done" : "failed", at: facts.renderedAt,
            facts.attempts == 0 ? "Rendered\(time)" : "\(facts.attempts) failures since the last render\(time)")
    }

    private func stored(_ timeline: WidgetExplanation.Timeline) -> JSONValue {
        guard let content = timeline.content else {
            let time = timeline.facts.snapshotAt
            return step(
                "Stored", is: "waiting", at: time,
                "Nothing stored: the widget shows its \(time == nil ? "placeholder" : "snapshot")")
        }
        return step(
            "Stored", is: "done", at: content.storedAt, "Revision \(content.revision), \(content.bytes) bytes")
    }

    /// A worker keeps its lease until Kafka has acknowledged the message.
    private func published(_ facts: ReloadFacts, revision: Int64?) -> JSONValue {
        guard let revision else {
            return step("Published", is: "waiting", at: nil, "Nothing to publish")
        }
        guard facts.lease == nil else {
            return step("Published", is: "waiting", at: nil, "A worker holds the timeline now")
        }
        // The time of the acknowledgement is not kept.
        return step("Published", is: "done", at: nil, "Revision \(revision): no publication is pending")
    }

    private func delivered(_ device: Registration?) -> JSONValue {
        guard let device else {
            return step("Delivered", is: "waiting", at: nil, "The device is not registered for notifications")
        }
        let told =
            device.triedAt == nil
            ? "never notified"
            : "notified by \(device.channel)\(device.answer.map { ", answered \($0)" } ?? "")"
        let isFetched = device.fetchedAt != nil
        return step(
            "Delivered", is: isFetched && device.waiting == 0 ? "done" : "waiting", at: device.fetchedAt,
            "\(isFetched ? "Fetched" : "Not fetched"); \(told); \(device.waiting) changes waiting")
    }
}

// MARK: - Dead letters

extension ConsoleVisit {
    private static let filterNames = ["cause", "topic", "since", "until", "letter"]

    /// The letters of a query or a form.
    private func selection() throws(Problem) -> DeadLetterFilter {
        var filter = DeadLetterFilter(owner: .app(app), causes: try call.deadLetterCauses())
        filter.topic = call.text("topic")
        filter.since = try call.time("since")
        filter.until = try call.time("until")
        if let text = call.text("letter") {
            guard let id = Int64(text) else { throw .parameter("letter", detail: "expected a number") }
            filter.ids = [id]
        }
        return filter
    }

    private func fields() -> [String: Any] {
        Dictionary(Self.filterNames.map { ($0, call.text($0) ?? "") }) { $1 }
    }

    /// Waiting dead letters, or with `all` ended ones too.
    func deadLetters() async throws -> ConsolePage {
        let (filter, all) = (try selection(), try call.flag("all"))
        let letters = try await run("consoleLetters") { routes, _ in
            try await routes.deadLetters(filter, withEnded: all)
        }
        var view = fields()
        view["all"] = call.text("all") ?? ""
        view["letters"] = JSONValue.array(letters.map(\.json))
        view["isEmpty"] = letters.isEmpty
        view["hasMore"] = letters.count == Routes.letterLimit
        view["limit"] = "\(Routes.letterLimit)"
        view["causes"] = DeadLetterCause.allCases.map { cause in
            ["name": cause.rawValue, "isChosen": filter.causes == [cause]] as [String: Any]
        }
        view["message"] = message
        return page("dead-letters", title: "Dead letters", view)
    }

    func deadLetter() async throws -> ConsolePage {
        let id = try call.letterID()
        let letter = try await run("getDeadLetter") { try await $0.deadLetter(id, for: $1) }
        var view = letter.json.objectValue.map(ConsolePage.members) ?? [:]
        view["isWaiting"] = letter.state == .waiting
        view["message"] = message
        // The payload is shown with line breaks if it is JSON.
        let payload = letter.json["payload"]?.stringValue ?? ""
        view["payload"] = (try? JSONValue.parse(payload)).map(\.pretty) ?? payload
        view["isLong"] = payload.utf8.count >= Routes.payloadLimit
        return page("dead-letter", title: "Dead letter \(id)", view)
    }

    /// Replays or discards what the form selects. Without a confirmation it shows what would happen.
    func endDeadLetters() async throws -> ConsolePage {
        let action = try call.path("letter")
        guard ["replay", "discard"].contains(action) else { throw Problem.noRoute(path) }
        let note = try call.operatorNote()
        let isConfirmed = call.text("confirmed") == "yes"
        var (filter, view) = (try selection(), fields())
        // The confirmation must not include letters that have arrived since the dry run.
        let now = Timestamp.now()
        if !isConfirmed, filter.ids.isEmpty, filter.until.map({ $0 > now }) ?? true {
            filter.until = now
            view["until"] = now.rfc3339
        }
        if action == "replay" {
            let outcome = try await run("consoleReplay") { [filter] routes, caller in
                let outcome = try await routes.replay(
                    filter, limit: Routes.actionLimit, isRehearsal: !isConfirmed)
                if isConfirmed { try await routes.record(.replay, note, affected: outcome.replayed, for: caller) }
                return outcome
            }
            let isLimited = outcome.replayed + outcome.failed >= Routes.actionLimit
            view["result"] = JSONValue.object(outcome.json).adding("isLimited", .bool(isLimited))
            view["failures"] = (outcome.json["failures"]?.objectValue?.members ?? []).map { member in
                ["code": member.key, "count": member.value.numberValue?.text ?? "0"]
            }
        } else {
            let count = try await run("consoleDiscard") { [filter] routes, caller in
                let count = try await routes.discard(filter, isRehearsal: !isConfirmed)
                if isConfirmed { try await routes.record(.discard, note, affected: count, for: caller) }
                return count
            }
            view["result"] =
                ["discarded": .count(count), "isLimited": .bool(count == Routes.actionLimit)] as JSONValue
        }
        view["isReplay"] = action == "replay"
        view["maximumReason"] = "\(OperatorNote.maximumReasonLength)"
        view["action"] = action
        view["isDone"] = isConfirmed
        let terms = [("Cause", "cause"), ("Topic", "topic"), ("Kept since", "since"), ("Kept before", "until")]
        view["terms"] = terms.compactMap { name, key in
            (view[key] as? String).flatMap { $0.isEmpty ? nil : ["name": name, "value": $0] }
        }
        return page("dead-letters-end", title: isConfirmed ? "Done" : action == "replay" ? "Replay?" : "Discard?", view)
    }
}
