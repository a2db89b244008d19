// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

/// DESIGN.md, D, end to end: from the manifest to the provider's requests.
@Suite(.tags(.process), .timeLimit(.patience))
struct ConfigurationProcessTests {
    private static let app = "com.example.every"

    /// A parameter of every type and control.
    private static func manifest(provider: String) -> String {
        """
        app: \(app)
        developerMode: true
        provider: {url: "\(provider)"}
        kinds:
          - name: Every
            families: [systemSmall, systemMedium]
            minimumSpacing: 0s
            timeout: 60s
            snapshots: false
            placeholder: {}
            intent:
              title: Every type
              category: information
              parameters:
                - {name: card, type: custom, typeName: Card, dynamicOptions: true, dynamicDefault: true}
                - {name: category, type: enumeration, default: all, cases: [{name: all}, {name: groceries}]}
                - {name: note, type: string, capitalization: words}
                - {name: mirror, type: boolean, default: true}
                - {name: calendars, type: custom, typeName: Calendar, several: true, parent: {name: mirror, hasExactly: false}}
                - {name: count, type: integer, control: stepper, minimum: 0, maximum: 10, step: 2, default: 4}
                - {name: year, type: integer}
                - {name: volume, type: decimal, control: slider, minimum: 0, maximum: 1}
                - {name: price, type: decimal}
                - {name: person, type: person}
                - {name: place, type: location}
                - {name: day, type: date}
                - {name: link, type: url}
                - {name: items, type: string, size: {systemSmall: 3, systemMedium: 6}}
                - {name: symbol, type: custom, typeName: Symbol, search: {prompt: Type a symbol}}

        """
    }

    private static let controls: JSONValue = [
        "list", "list", "textField", "switch", "list", "stepper", "numberField", "slider", "numberField",
        "contactPicker", "locationPicker", "datePicker", "urlField", "textField", "list",
    ]

    /// A value of every type, with the display strings that a person saw.
    private static let configuration = """
        {"card": {"identifier": "soup", "display": "Soup Pay"}, "category": "groceries", "note": "For Lunch",
         "mirror": false, "calendars": [{"identifier": "work", "display": "Work"}, "home"], "count": 6, "year": 2026,
         "volume": 0.25, "price": 9.5, "person": {"identifier": "p1", "display": "Ann"},
         "place": {"display": "Home", "latitude": 37.33, "longitude": -122.01}, "day": "2026-06-22T09:41:00+02:00",
         "link": "rangers://hero/panda", "items": ["b", "a"], "symbol": "AAPL"}
        """

    /// The timeline's configuration: the same values without display strings.
    private static let shown = """
        {"card": "soup", "category": "groceries", "note": "For Lunch", "mirror": false, "calendars": ["work", "home"],
         "count": 6, "year": 2026, "volume": 0.25, "price": 9.5, "person": "p1",
         "place": {"latitude": 37.33, "longitude": -122.01}, "day": "2026-06-22T07:41:00Z",
         "link": "rangers://hero/panda", "items": ["b", "a"], "symbol": "AAPL"}
        """

    @Test("D: a value of every type goes from the manifest through intent, form, event and identity to the provider")
    func everyType() async throws {
        let configuration = try JSONValue.parse(Self.configuration)
        let shown = try WidgetConfiguration(JSONValue.parse(Self.shown)).value
        try await withInstallation { installation in
            try await withStubProvider { provider in
                provider.respond(to: .defaults) { _ in
                    .body(Array(#"{"values": {"card": {"identifier": "acme", "display": "Acme Card"}}}"#.utf8))
                }
                try await installation.withKeys { keys in
                    let manifest = URL(filePath: keys).deletingLastPathComponent().appending(path: "kinds.yaml").path
                    try Data(Self.manifest(provider: provider.url).utf8).write(to: URL(filePath: manifest))
                    let applied = try await installation.freshet("kinds", "apply", manifest)
                    #expect(applied.status == 0, "\(applied.err)")
                    let token = try await installation.token(
                        keys, app: Self.app, "--scope", "widgets:read", "--scope", "widgets:write", "--scope", "operate"
                    )
                    let node = try await installation.run("--set", "api.keys=\(keys)")
                    let port = try #require(node.ready["apiPort"]?.numberValue?.int64)
                    let api = APIProbe(port: Int(port), token: token, app: Self.app)

                    let intent = try await api.ask(.get, "kinds/Every/intent").document
                    #expect(intent["parameters"]?.arrayValue?.count == 15)
                    let widget = try await placedWithDefaults(by: api)
                    let defaults = try await form(of: widget, by: api)
                    #expect(defaults["card"] == ["identifier": "acme", "display": "Acme Card"])
                    #expect(defaults["count"] == 4 && defaults["mirror"] == true)

                    try await change("widgets/\(widget)/configuration", ["configuration": configuration], by: api)
                    let rows = try await form(of: widget, by: api)
                    let expected = try #require(configuration.objectValue)
                    for member in expected.members { #expect(rows[member.key] == member.value, "\(member.key)") }

                    try await eventually("the values reach the provider") {
                        provider.requests.flatMap(\.items).contains { $0["configuration"] == shown }
                    }
                    let asked = try #require(
                        provider.requests.flatMap(\.items).first { $0["configuration"] == shown })
                    let timeline = try await shownTimeline(of: widget, by: api)
                    #expect(timeline == asked["id"])

                    // Equal configurations share a timeline.
                    var same = expected
                    same["card"] = "soup"
                    same["day"] = "2026-06-22T07:41:00Z"
                    try await place("w2", .object(same), by: api)
                    #expect(try await shownTimeline(of: "w2", by: api) == timeline)
                    same["items"] = ["a", "b"]
                    try await place("w3", .object(same), by: api)
                    #expect(try await shownTimeline(of: "w3", by: api) != timeline)

                    node.process.send(signal: SIGTERM)
                    _ = try await node.process.end()
                }
            }
        }
    }

    @Test("D: kinds apply and its dry run name sizes for families that the kind does not offer")
    func notices() async throws {
        try await withInstallation { installation in
            try await installation.withKeys { keys in
                let manifest = URL(filePath: keys).deletingLastPathComponent().appending(path: "kinds.yaml").path
                let text = Self.manifest(provider: "http://127.0.0.1:1").replacing(
                    "systemSmall: 3, systemMedium: 6", with: "systemSmall: 3, systemLarge: 6")
                try Data(text.utf8).write(to: URL(filePath: manifest))
                let notice =
                    "Every.items: the size for systemLarge has no effect: the kind offers systemSmall, systemMedium"
                for options in [["--dry-run"], []] {
                    let applied = try await FreshetProcess.run(
                        ["kinds", "apply", manifest, "--json"] + options, environment: installation.environment)
                    #expect(applied.status == 0 && applied.err.contains(": \(notice)\n"), "\(applied.err)")
                    #expect(try JSONValue.parse(applied.out).arrayValue?.first?["notices"] == [.string(notice)])
                }
            }
        }
    }

    @Test("D: publish widget placed is not blocked by a value that the widget has already")
    func placedAgain() async throws {
        try await withInstallation { installation in
            try await installation.withKeys { keys in
                let manifest = URL(filePath: keys).deletingLastPathComponent().appending(path: "kinds.yaml").path
                func apply(maximum: Int) async throws {
                    let text = Self.manifest(provider: "http://127.0.0.1:1").replacing(
                        "maximum: 10, step", with: "maximum: \(maximum), step")
                    try Data(text.utf8).write(to: URL(filePath: manifest))
                    #expect(try await installation.freshet("kinds", "apply", manifest).status == 0)
                }
                func place(_ configuration: String) async throws -> Int32 {
                    try await installation.freshet(
                        "publish", "widget", "placed", "--app", Self.app, "--user", "u1", "--device", "d1", "--kind",
                        "Every", "--configuration", configuration, "w1"
                    ).status
                }
                try await apply(maximum: 10)
                let ingest = try await installation.run("--role", "ingest")
                #expect(try await place(#"{"count": 10}"#) == 0)
                try await apply(maximum: 8)
                #expect(try await place(#"{"count": 10, "category": "groceries"}"#) == 0)
                #expect(try await place(#"{"count": 12}"#) == 1)
                ingest.process.send(signal: SIGTERM)
                _ = try await ingest.process.end()
            }
        }
    }

    @Test("D: the commands list a parameter's options and change a widget's values")
    func commands() async throws {
        try await withInstallation { installation in
            try await withStubProvider { provider in
                provider.respond(to: .options) { request in
                    let term = try JSONValue.parse(request.body)["search"]?.stringValue ?? ""
                    return .body(Array(#"{"options": [{"identifier": "s1", "display": "Found \#(term)"}]}"#.utf8))
                }
                try await installation.withKeys { keys in
                    let manifest = URL(filePath: keys).deletingLastPathComponent().appending(path: "kinds.yaml").path
                    try Data(Self.manifest(provider: provider.url).utf8).write(to: URL(filePath: manifest))
                    #expect(try await installation.freshet("kinds", "apply", manifest).status == 0)

                    let options = ["options", "--app", Self.app, "--kind", "Every", "--parameter"]
                    let environment = installation.environment
                    let found = try await FreshetProcess.run(
                        options + ["symbol", "--search", "app"], environment: environment)
                    #expect(found.status == 0 && found.out.contains("Found app"), "\(found.err)")
                    let cases = try await FreshetProcess.run(
                        options + ["category", "--search", "gro"], environment: environment)
                    #expect(cases.out.contains("groceries") && !cases.out.contains("all"))
                    let unknown = try await FreshetProcess.run(options + ["simbol"], environment: environment)
                    #expect(unknown.status == 1 && unknown.err.contains("did you mean \"symbol\"?"))

                    let ingest = try await installation.run("--role", "ingest")
                    let placed = try await installation.freshet(
                        "publish", "widget", "placed", "--app", Self.app, "--user", "u1", "--device", "d1", "--kind",
                        "Every", "--family", "systemSmall", "w1")
                    #expect(placed.status == 0, "\(placed.err)")
                    func configure(_ values: String...) async throws -> (status: Int32, out: String, err: String) {
                        try await FreshetProcess.run(
                            ["widgets", "configure", "--app", Self.app, "w1"] + values, environment: environment)
                    }
                    try await eventually("the widget is known") {
                        try await configure("category=groceries", "items=a", "items=b").status == 0
                    }
                    let misplaced = try await installation.freshet(
                        "publish", "widget", "placed", "--app", Self.app, "--user", "u1", "--device", "d1", "--kind",
                        "Every", "--configuration", #"{"category": "grocerys", "count": 5}"#, "w2")
                    #expect(misplaced.status == 1 && misplaced.out.isEmpty, "nothing is published")
                    for place in ["/configuration/category: ", "/configuration/count: "] {
                        #expect(misplaced.err.contains(place), "\(misplaced.err)")
                    }
                    let bad = try await configure("category=grocerys")
                    #expect(bad.status == 1 && bad.err.contains("did you mean \"groceries\"?"), "\(bad.err)")
                    try await eventually("the widget has the values") {
                        let shown = try await installation.freshet("widgets", "show", "--app", Self.app, "w1", "--json")
                        let values = try JSONValue.parse(shown.out)["configuration"]
                        return values?["category"] == "groceries" && values?["items"] == ["a", "b"]
                    }
                    ingest.process.send(signal: SIGTERM)
                    _ = try await ingest.process.end()
                }
            }
        }
    }

    private func place(_ widget: String, _ configuration: JSONValue = [:], by api: APIProbe) async throws {
        try await change(
            "widgets/\(widget)",
            [
                "user": "u1", "device": "d1", "kind": "Every", "family": "systemSmall",
                "configuration": configuration, "environment": ["locale": "en-GB", "timeZone": "Europe/London"],
            ], by: api)
    }

    /// Sends a change and waits until it is applied.
    private func change(_ path: String, _ body: JSONValue, by api: APIProbe) async throws {
        let answer = try await api.ask(.put, "\(path)?wait=applied", body: body)
        if answer.status == 200 { return }
        // The API itself waits for a limited time.
        #expect(answer.status == 202, "\(answer.text)")
        let event = try #require(answer.document["event"]?["id"]?.stringValue)
        try await eventually("\(path) is changed") { try await api.ask(.get, "events/\(event)").status == 200 }
    }

    /// Places widgets until one has the dynamic defaults, and returns its name. A widget whose provider does not answer
    /// within two seconds keeps the definition's defaults.
    private func placedWithDefaults(by api: APIProbe) async throws -> String {
        var (widgets, found) = ([String](), "")
        try await eventually("a widget has the provider's defaults", every: .seconds(1)) {
            if widgets.count < 20 {
                widgets.append("w1-\(widgets.count)")
                try await place(widgets[widgets.count - 1], by: api)
            }
            for widget in widgets where try await form(of: widget, by: api)["card"] != .null { found = widget }
            return !found.isEmpty
        }
        return found
    }

    /// Values of the form.
    private func form(of widget: String, by api: APIProbe) async throws -> JSONObject {
        let rows = try await api.ask(.get, "widgets/\(widget)/configuration/form").document["rows"]?.arrayValue
        #expect(JSONValue.array(rows?.map { $0["control"] ?? .null } ?? []) == Self.controls)
        var values = JSONObject()
        for row in rows ?? [] {
            if let name = row["parameter"]?.stringValue { values[name] = row["value"] }
        }
        return values
    }

    private func shownTimeline(of widget: String, by api: APIProbe) async throws -> JSONValue? {
        try await api.ask(.get, "widgets/\(widget)").document["timeline"]
    }
}
