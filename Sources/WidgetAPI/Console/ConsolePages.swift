import HTTPTypes
import Hummingbird
import JSON
import WidgetModel

/// Pages of the console and the actions of their forms, with paths below the console.
enum ConsolePages {
    static let all: [(path: String, render: @Sendable (ConsoleVisit) async throws -> Response)] = [
        ("", { try await $0.overview().response() }),
        ("/doctor", { try await $0.doctor().response() }),
        ("/kinds", { try await $0.kinds().response() }),
        ("/kinds/{kind}", { try await $0.kind().response() }),
        ("/manifest", { $0.manifest().response() }),
        ("/simulator", { $0.simulator().response() }),
        ("/widgets", { try await $0.widgets().response() }),
        ("/widgets/{widget}", { try await $0.widget().response() }),
        ("/widgets/{widget}/form", { try await $0.configurationForm() }),
        ("/dead-letters", { try await $0.deadLetters().response() }),
        ("/dead-letters/{letter}", { try await $0.deadLetter().response() }),
        ("/providers", { try await $0.providers().response() }),
        ("/live", { try await $0.respond("consoleWatch", query: ["widget": $0.query("widget")]) }),
    ]

    /// A form's action.
    struct Action: Sendable {
        let path: String
        let run: @Sendable (ConsoleVisit, ConsoleFields) async throws -> Response
    }

    static let actions = [
        Action(path: "/app/{action}") { visit, _ in
            try await visit.operate(["pause": "pauseApp", "resume": "resumeApp"], back: "/kinds")
        },
        Action(path: "/kinds/{kind}/{action}") { visit, _ in
            let kind = visit.path("kind")
            guard visit.path("action") != "reload" else {
                return try await visit.reload(
                    ["everyone": true], kinds: [.string(kind)], back: "/kinds/\(Text.percentEncoded(kind))")
            }
            return try await visit.operate(
                ["pause": "pauseKind", "resume": "resumeKind", "cancel": "consoleCancel", "test": "testProvider"],
                ["kind": kind], back: "/kinds/\(Text.percentEncoded(kind))")
        },
        Action(path: "/widgets/{widget}/reload") { visit, _ in
            let widget = visit.path("widget")
            return try await visit.reload(
                ["widget": .string(widget)], kinds: "all", back: "/widgets/\(Text.percentEncoded(widget))")
        },
        Action(path: "/manifest") { visit, fields in try await visit.compare(fields).response() },
        Action(path: "/simulator") { visit, fields in try await visit.simulate(fields).response() },
        // The action is named `letter`, since the router requires the name of the page's parameter above.
        Action(path: "/dead-letters/{letter}") { visit, fields in try await visit.settle(fields) },
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

    var message: String? { query("done").flatMap { Self.messages[$0] } }

    /// Runs the action of the path through a route, and returns to a page.
    func operate(_ routes: [String: String], _ path: [String: String] = [:], back: String) async throws -> Response {
        let action = self.path("action")
        guard let route = routes[action] else { throw Problem.noRoute(request.uri.path) }
        let result = try await call(route, path)
        guard action != "test" else { return try await providers(tested: result).response() }
        return console.redirect(to: "\(Console.base)\(back)?done=\(action)")
    }

    func reload(_ audience: JSONValue, kinds: JSONValue, back: String) async throws -> Response {
        _ = try await call("requestReload", body: ["reason": "operator", "audience": audience, "kinds": kinds])
        return console.redirect(to: "\(Console.base)\(back)?done=reload")
    }

    // MARK: Overview

    func overview() async throws -> ConsolePage {
        let counts = try await call("countDeadLetters")
        let byCause = (counts["counts"]?.objectValue?.members ?? []).map { $0.value.numberValue?.double ?? 0 }
        let waiting = byCause.reduce(0, +)
        let isCapped = byCause.contains { $0 >= Double(RouteDependencies.countLimit) }
        let statistics = try await call("consoleStatistics")
        let delivery = (statistics["delivery"]?.arrayValue ?? []).map { kind in
            Self.withObjective(kind, statistics["objectives"]?[kind["kind"]?.stringValue ?? ""])
        }
        let kinds = try await call("listKinds")["kinds"]?.arrayValue ?? []
        let health = console.configuration.providerHealth(app)
        let open = (health ?? [:]).filter { $0.value["breaker"]?.stringValue == "open" }.keys.sorted()
        var page = page(
            "overview", "Overview",
            [
                "charts": charts.enumerated().map {
                    ["title": $1.title, "id": "chart-\($0)", "html": $1.html] as [String: Any]
                },
                "waiting": (isCapped ? "at least " : "") + ConsoleView.words(waiting), "hasWaiting": waiting > 0,
                "kinds": "\(kinds.count)",
                "paused": "\(kinds.count { $0["paused"] == .bool(true) || $0["appPausedAt"]?.stringValue != nil })",
                "breakers": health == nil ? "unknown" : "\(open.count)",
                "hasOpen": !open.isEmpty, "hasNoWorkers": health == nil,
                "delivery": ConsoleView.value(.array(delivery)), "hasDelivery": !delivery.isEmpty,
                "today": ConsoleView.value(.array(Self.totals(statistics))),
            ])
        page.live = "\(Console.base)/live"
        return page
    }

    /// Statistics of kinds with their names beside their counts.
    private static func totals(_ statistics: JSONValue) -> [JSONValue] {
        (statistics["kinds"]?.arrayValue ?? []).compactMap { kind in
            kind["total"].map { $0.adding("kind", kind["kind"] ?? "") }
        }
    }

    /// Freshness of a kind with its objective in milliseconds, and the latencies as percentages of it.
    private static func withObjective(_ delivery: JSONValue, _ objective: JSONValue?) -> JSONValue {
        guard let objective, let limit = objective.numberValue?.double, limit > 0 else { return delivery }
        var delivery = delivery.adding("objective", objective)
        for name in ["p50", "p99"] {
            guard let latency = delivery["\(name)Milliseconds"]?.numberValue?.double else { continue }
            delivery = delivery.adding("\(name)Share", .string("\(ConsoleView.words(100 * latency / limit)) %"))
        }
        return delivery
    }

    func doctor() async throws -> ConsolePage {
        let findings = try await call("consoleFindings")["findings"]?.arrayValue ?? []
        let marked = findings.map { finding -> JSONValue in
            let severity = finding["severity"]?.stringValue ?? ""
            let style = ["ok": "good", "warning": "warn", "problem": "bad"][severity] ?? "soft"
            return finding.adding("style", .string(style))
        }
        func found(_ severity: String) -> [JSONValue] { marked.filter { $0["severity"] == .string(severity) } }
        let (problems, warnings) = (found("problem"), found("warning"))
        func count(_ findings: [JSONValue], _ name: String) -> String {
            "\(findings.count) \(name)\(findings.count == 1 ? "" : "s")"
        }
        let summary =
            "\(count(problems, "problem")), \(count(warnings, "warning")), \(found("ok").count) ok"
        return page(
            "doctor", "Doctor",
            [
                "findings": ConsoleView.value(.array(marked)), "isEmpty": findings.isEmpty, "summary": summary,
                "style": problems.isEmpty ? warnings.isEmpty ? "good" : "warn" : "bad",
                "urgent": ConsoleView.value(.array(Array((problems + warnings).prefix(3)))),
                "alerts": console.configuration.runbook.map { runbook in
                    ConsoleAlert.allCases.map { ["name": $0.name, "link": $0.link(runbook)] }
                } ?? [],
                "hasAlerts": console.configuration.runbook != nil,
            ])
    }

    // MARK: Kinds

    func kinds() async throws -> ConsolePage {
        let statistics = Self.totals(try await call("consoleStatistics"))
        let found = try await call("listKinds")["kinds"]?.arrayValue ?? []
        let kinds = found.map { kind -> JSONValue in
            let name = kind["definition"]?["name"] ?? ""
            return kind.adding("name", name).adding("counts", statistics.first { $0["kind"] == name } ?? .null)
        }
        let isPaused = found.contains { $0["appPausedAt"]?.stringValue != nil }
        return page(
            "kinds", "Kinds",
            [
                "kinds": ConsoleView.value(.array(kinds)), "isPaused": isPaused, "message": message ?? "",
                "isEmpty": kinds.isEmpty,
                "forecast": ConsoleView.chart(of: try await call("getForecast", query: ["hours": "24"])),
            ])
    }

    func kind() async throws -> ConsolePage {
        let name = path("kind")
        let kind = try await call("getKind", ["kind": name])
        let statistics = try await call("consoleStatistics", query: ["days": "7"])
        let own = statistics["kinds"]?.arrayValue?.first { $0["kind"] == .string(name) }
        let delivery = statistics["delivery"]?.arrayValue?.first { $0["kind"] == .string(name) }
        let days = (own?["byDay"]?.arrayValue ?? []).reversed().map { day in
            (day["counts"] ?? .null).adding("day", day["day"] ?? "")
        }
        var view = kind.objectValue.map(ConsoleView.members) ?? [:]
        view["name"] = name
        view["message"] = message ?? ""
        view["days"] = ConsoleView.value(.array(Array(days)))
        view["delivery"] = ConsoleView.value(delivery ?? .null)
        view["json"] = PrettyJSON.text(kind["definition"] ?? .null)
        view["budget"] = try await budget(name, kind)
        view["forecast"] = ConsoleView.chart(of: try await call("consoleForecast", ["kind": name]))
        return page("kind", name, view)
    }

    /// Reloads of today (UTC) per timeline, free ones included, beside the daily budget.
    private func budget(_ name: String, _ kind: JSONValue) async throws -> String {
        let use = try await call("consoleBudget", ["kind": name])
        let (least, most) = (use["minimum"]?.numberValue?.text ?? "", use["maximum"]?.numberValue?.text ?? "")
        guard kind["developerMode"] != .bool(true) else { return "developer mode lifts the budget" }
        guard let average = use["average"]?.numberValue?.double else {
            return use["timelines"] == 0 ? "no timelines" : "too many timelines for an average"
        }
        return "\(ConsoleView.words(average)) on average, free ones included; the budget is \(least) to \(most) a day"
    }

    // MARK: Manifests

    func manifest(_ text: String = "", changes: [JSONValue]? = nil, problem: String? = nil) -> ConsolePage {
        var view: [String: Any] = ["manifest": text, "hasChanges": changes != nil]
        view["changes"] = changes.map { ConsoleView.value(.array($0)) }
        view["problem"] = problem
        return page("manifest", "Compare a manifest", view)
    }

    func compare(_ fields: ConsoleFields) async throws -> ConsolePage {
        let text = (fields["manifest"] ?? "").replacing("\r\n", with: "\n")
        do throws(Problem) {
            let result = try await call("consoleManifest", body: ["manifest": .string(text)])
            return manifest(text, changes: result["changes"]?.arrayValue ?? [])
        } catch {
            guard error.status.kind == .clientError, error.status != .forbidden else { throw error }
            return manifest(text, problem: error.detail)
        }
    }

    // MARK: Providers

    func providers(tested: JSONValue? = nil) async throws -> ConsolePage {
        let kinds = try await call("listKinds")["kinds"]?.arrayValue ?? []
        let health = console.configuration.providerHealth(app)
        let hasNoWorkers = health == nil
        let forecast = try await call("getForecast", query: ["hours": "24"])["providers"]?.arrayValue ?? []
        var urls: [String: [JSONValue]] = [:]
        for kind in kinds {
            guard let url = kind["definition"]?["providerURL"]?.stringValue else { continue }
            urls[url, default: []].append(kind["definition"] ?? .null)
        }
        let items = urls.sorted { $0.key < $1.key }.map { url, kinds -> JSONValue in
            let due = forecast.first { $0["provider"] == .string(url) }
            return [
                "url": .string(url), "kinds": .array(kinds), "health": health?[url] ?? .null,
                "forecast": due?["total"] ?? 0, "now": due?["now"] ?? 0,
                "firstKind": kinds.first?["name"] ?? .null,
            ]
        }
        var page = page(
            "providers", "Providers",
            [
                "providers": ConsoleView.value(.array(items)), "isEmpty": items.isEmpty,
                "hasNoWorkers": hasNoWorkers, "latency": providerLatency,
                "tested": ConsoleView.value(tested ?? .null),
            ])
        // A live update would replace the test's result.
        if tested == nil { page.live = "\(Console.base)/live" }
        return page
    }
}
