import HTTPTypes
import Hummingbird
import JSON
import WidgetModel

/// The pages of widgets.
extension ConsoleVisit {
    /// Widgets of a user, a device or a kind. An id leads to its widget.
    func widgets() async throws -> ConsolePage {
        var names: [String: String?] = [:]
        for name in ["user", "device", "kind", "cursor"] { names[name] = query(name) }
        let widget = query("widget")
        var found: [JSONValue] = []
        var next: String?
        if let widget {
            found = [try await find("getWidget", ["widget": widget])].compactMap { $0 }
        } else {
            let page = try await call("listWidgets", query: names.merging(["limit": "50"]) { $1 })
            found = page["widgets"]?.arrayValue ?? []
            next = page["next"]?.stringValue
        }
        var view: [String: Any] = ["widgets": ConsoleView.value(.array(found)), "isEmpty": found.isEmpty]
        for (name, value) in names { view[name] = value ?? "" }
        view["widget"] = widget ?? ""
        view["hasNext"] = next != nil
        if let next {
            let items = names.merging(["cursor": next]) { $1 }.compactMap { name, value in
                value.map { "\(name)=\(Text.percentEncoded($0))" }
            }
            view["next"] = "\(Console.base)/widgets?\(items.sorted().joined(separator: "&"))"
        }
        return page("widgets", "Widgets", view)
    }

    /// One widget: why it shows what it shows.
    func widget() async throws -> ConsolePage {
        let id = path("widget")
        let explanation = try await call("explainWidget", ["widget": id])
        let widget = try await call("getWidget", ["widget": id])
        let user = widget["user"]?.stringValue ?? ""
        let devices = try await call("listDevices", ["user": user])["devices"]?.arrayValue ?? []
        let device = devices.first { $0["device"] == widget["device"] } ?? .null
        let stacks = try await stacks(of: user, holding: id)
        // A removed widget has none.
        let timeline = try await find("getTimeline", ["widget": id])
        var view: [String: Any] = [
            "widget": ConsoleView.value(widget), "explanation": ConsoleView.value(explanation),
            "configuration": widget["configuration"].map(PrettyJSON.text) ?? "",
            "steps": ConsoleView.value(
                .array(ConsoleSteps(explanation: explanation, timeline: timeline, device: device).json)),
            "stacks": ConsoleView.value(.array(stacks)), "hasStacks": !stacks.isEmpty,
            "device": ConsoleView.value(device), "message": message ?? "",
            "explanationJSON": PrettyJSON.text(explanation), "timelineJSON": timeline.map(PrettyJSON.text) ?? "",
            "hasForm": try await hasForm(widget), "axis": axis(widget, timeline),
        ]
        view["revision"] = timeline?["revision"]?.numberValue?.text ?? "none"
        if timeline?["content"] == .null { view["shown"] = PrettyJSON.text(timeline?["shown"] ?? .null) }
        var page = page("widget", "Widget \(id)", view)
        page.scripts.append(TimeAxis.script)
        page.styles = [TimeAxis.stylesheet]
        page.live = "\(Console.base)/live?widget=\(Text.percentEncoded(id))"
        return page
    }

    /// The stored entries on a time axis; empty without stored content.
    private func axis(_ widget: JSONValue, _ timeline: JSONValue?) -> HTML {
        guard let content = timeline?["content"], content != .null,
            let axis = try? TimeAxis(
                title: "Stored entries and their relevance", id: "axis", timeline: content.encoded,
                link: timeline?["url"]?.stringValue, now: WallClock.now(),
                timeZone: widget["environment"]?["timeZone"]?.stringValue ?? "UTC")
        else { return "" }
        return axis.html
    }

    private func stacks(of user: String, holding widget: String) async throws(Problem) -> [JSONValue] {
        let stacks = try await call("consoleStacks", ["user": user])["stacks"]?.arrayValue ?? []
        return stacks.filter { stack in
            stack["now"]?["items"]?.arrayValue?.contains { $0["widget"] == .string(widget) } ?? false
        }.map { stack in
            let items = (stack["now"]?["items"]?.arrayValue ?? []).map { item in
                item.adding("isThis", .bool(item["widget"] == .string(widget)))
            }
            return ["plan": stack["plan"] ?? .null, "hold": stack["now"]?["hold"] ?? .null, "items": .array(items)]
        }
    }

    private func hasForm(_ widget: JSONValue) async throws(Problem) -> Bool {
        guard mayCall("configureWidget"), widget["removed"] != .bool(true) else { return false }
        guard let kind = widget["kind"]?.stringValue else { return false }
        return try await find("getIntent", ["kind": kind]) != nil
    }

    /// The API's form of the widget's configuration, which saves with the bearer's token.
    func configurationForm() async throws -> Response {
        guard mayCall("configureWidget") else { throw Problem.insufficientScope(.widgetsWrite) }
        var form = try await respond("getWidgetForm", ["widget": path("widget")], headers: [.accept: "text/html"])
        form.headers[.init("Cross-Origin-Opener-Policy")!] = "same-origin"
        return form
    }
}

/// The way of a widget's content, from the request to the device.
struct ConsoleSteps: Sendable {
    let explanation: JSONValue
    let timeline: JSONValue?
    let device: JSONValue

    var json: [JSONValue] {
        guard explanation["last"] != nil || explanation["lastDecision"] != nil else { return [] }
        return [request, decision, fetch, stored, published, delivered]
    }

    private func step(_ name: String, _ state: String, at time: JSONValue?, _ text: String) -> JSONValue {
        ["name": .string(name), "state": .string(state), "at": time ?? .null, "text": .string(text)]
    }

    private var isStale: Bool { explanation["requests"]?["stale"] == .bool(true) }

    private var request: JSONValue {
        let event = explanation["events"]?.arrayValue?.first { $0["of"] == "request" || $0["of"] == "kind" }
        let pending = explanation["requests"]?["pending"]?.numberValue?.text ?? "0"
        let ahead = explanation["requests"]?["sweepsAhead"]?.numberValue?.text
        let state =
            isStale
            ? "\(pending) pending"
            : ahead == "0"
                ? "all requests are rendered"
                : ahead.map { "\($0) to come from a sweep" } ?? "more sweeps wait than are examined"
        let reason = event?["reason"]?.stringValue.map { "for the reason \($0)" } ?? "by policy or placement"
        let type = event?["type"]?.stringValue.map { ", event \($0)" } ?? ""
        return step(
            "Request", "done", at: event?["appliedAt"],
            "Last requested \(reason)\(type); \(state)")
    }

    private var decision: JSONValue {
        let last = explanation["lastDecision"]
        let failed = last?["decision"] == "failed"
        let rule = last?["rule"]?.stringValue.map { " (rule \($0))" } ?? ""
        return step(
            "Decision", last?["at"]?.stringValue == nil ? "waiting" : failed ? "failed" : "done", at: last?["at"],
            "\(last?["text"]?.stringValue ?? "none yet")\(rule)")
    }

    private var fetch: JSONValue {
        guard let fetch = explanation["lastFetch"], fetch != .null else {
            return step("Fetch", "waiting", at: nil, "Never fetched")
        }
        let time = fetch["milliseconds"]?.numberValue.map { " in \($0.text) ms" } ?? ""
        let failures = fetch["failuresSince"]?.numberValue?.text ?? "0"
        return step(
            "Fetch", failures == "0" ? "done" : "failed", at: fetch["renderedAt"],
            failures == "0" ? "Rendered\(time)" : "\(failures) failures since the last render\(time)")
    }

    private var stored: JSONValue {
        let shows = explanation["shows"]
        guard shows?["content"] == "timeline" else {
            return step(
                "Stored", "waiting", at: shows?["storedAt"],
                "Nothing stored: the widget shows its \(shows?["content"]?.stringValue ?? "placeholder")")
        }
        let bytes = shows?["bytes"]?.numberValue?.text ?? "0"
        return step(
            "Stored", "done", at: shows?["storedAt"],
            "Revision \(shows?["revision"]?.numberValue?.text ?? "-"), \(bytes) bytes")
    }

    /// A worker keeps its lease until Kafka has acknowledged the message.
    private var published: JSONValue {
        guard let revision = timeline?["revision"]?.numberValue?.text else {
            return step("Published", "waiting", at: nil, "Nothing to publish")
        }
        guard explanation["lease"] == .null else {
            return step("Published", "waiting", at: nil, "A worker holds the timeline now")
        }
        // The time of the acknowledgement is not kept.
        return step("Published", "done", at: nil, "Revision \(revision): no publication is pending")
    }

    private var delivered: JSONValue {
        guard device != .null else {
            return step("Delivered", "waiting", at: nil, "The device is not registered for notifications")
        }
        let waiting = device["waiting"]?.numberValue?.text ?? "0"
        let answer = device["answer"]?.numberValue.map { ", answered \($0.text)" } ?? ""
        let told =
            device["triedAt"]?.stringValue != nil
            ? "notified by \(device["channel"]?.stringValue ?? "-")\(answer)" : "never notified"
        let fetched = device["fetchedAt"]?.stringValue != nil
        return step(
            "Delivered", fetched && waiting == "0" ? "done" : "waiting", at: device["fetchedAt"],
            "\(fetched ? "Fetched" : "Not fetched"); \(told); \(waiting) changes waiting")
    }
}
