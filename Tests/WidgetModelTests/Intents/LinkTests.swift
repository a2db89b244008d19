// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing
import WidgetModel

/// DESIGN.md, A: systemSmall has one link (`widgetURL`), larger families may have several, and links follow the
/// configuration.
@Suite("Links")
struct LinkTests {
    private static func link(_ template: String, _ configuration: String) throws -> String {
        try LinkTemplate(template).url(for: try WidgetConfiguration(json: Array(configuration.utf8)))
    }

    @Test(
        "A: links follow the configuration: a Power Panda widget opens Power Panda",
        arguments: [
            ("rangers://hero/{hero}", #"{"hero": "powerPanda"}"#, "rangers://hero/powerPanda"),
            (
                "rangers://hero/{hero}", #"{"hero": {"identifier": "egg head", "display": "Egghead"}}"#,
                "rangers://hero/egg%20head"
            ),
            (
                "https://a.example/{a}?b={b}", #"{"a": "ü/{b}&", "b": true}"#,
                "https://a.example/%C3%BC%2F%7Bb%7D%26?b=true"
            ),
            ("x:{n}/{several}", #"{"n": 4.0, "several": ["a,b", "c"]}"#, "x:4/a%2Cb,c"),
            ("x:{place}/{missing}", #"{"place": {"latitude": 1.5, "longitude": -2}}"#, "x:1.5,-2/"),
            ("bank://cards", "{}", "bank://cards"),
        ])
    func template(_ template: String, _ configuration: String, _ expected: String) throws {
        #expect(try Self.link(template, configuration) == expected)
    }

    @Test("A link uses the defaults of omitted values and no hidden values")
    func defaults() throws {
        let intent = try IntentDefinitionTests.intent(
            parameters: """
                {"name": "hero", "type": "custom", "default": {"identifier": "powerPanda", "display": "Power Panda"}}
                """)
        let kind = KindDefinition(
            name: "K", providerURL: "https://p.example", placeholder: 1, widgetURL: "rangers://hero/{hero}",
            intent: intent)
        #expect(kind.link(for: .empty, family: .systemSmall) == "rangers://hero/powerPanda")
        let spouty = try WidgetConfiguration(["hero": ["identifier": "spouty", "display": "Spouty"]])
        #expect(kind.link(for: spouty, family: .systemSmall) == "rangers://hero/spouty")
        #expect(try KindDefinition(json: kind.json()) == kind)
    }

    @Test(
        "A template is an absolute URL with parameter names in braces",
        arguments: [
            "hero/{hero}", "{hero}://x", "rangers://{", "rangers://}", "rangers://{}", "rangers://{a{b}}", "r://\n",
        ])
    func refused(_ text: String) {
        #expect(throws: ModelError.self) { try LinkTemplate(text) }
    }

    @Test("A template with an unknown parameter is refused with a suggestion")
    func unknown() throws {
        let json = try JSONValue.parse(
            """
            {"name": "K", "providerURL": "https://p.example", "placeholder": 1, "widgetURL": "r://{herp}",
             "intent": {"title": "T", "parameters": [{"name": "hero", "type": "string"}]}}
            """)
        let errors = KindDefinition.validate(json).errors
        #expect(errors.map(\.pointer) == ["/widgetURL"])
        #expect(errors.first?.message.contains("hero") == true)
    }

    // MARK: Entries

    private static let id = TimelineID(high: 1, low: 2)

    private struct Refused: Error {}

    private static func parse(_ entries: String, family: WidgetFamily? = nil) throws -> ParsedTimeline {
        let text = #"{"timelines": [{"id": "\#(id)", "policy": "never", "entries": [\#(entries)]}]}"#
        let response = try ProviderResponse.parse(
            Array(text.utf8), requested: [RequestedTimeline(id, family: family)])
        guard case .success(let timeline)? = response.outcomes.first else { throw Refused() }
        return timeline
    }

    @Test("A: medium and larger may have several links")
    func several() throws {
        let parsed = try Self.parse(
            #"{"links": {"b": "x:2", "a": "x:1"}, "date": "2026-06-22T10:00:00Z", "url": "x:0", "content": 1}"#,
            family: .systemMedium)
        #expect(
            String(decoding: parsed.content, as: UTF8.self) == #"""
                {"entries":[{"content":1,"date":"2026-06-22T10:00:00Z","links":{"a":"x:1","b":"x:2"},"url":"x:0"}],"policy":"never"}
                """#)
        #expect(parsed.lints == [])
        #expect(ParsedTimeline.url(of: parsed.content[12..<(parsed.content.count - 19)]) == "x:0")
    }

    @Test("A: systemSmall and the accessory families have one link: several are a lint")
    func lint() throws {
        func lints(_ members: String, _ family: WidgetFamily?) throws -> TimelineLints {
            try Self.parse(
                #"{"date": "2026-06-22T10:00:00Z", "content": 1}, {"date": "2026-06-22T11:00:00Z", "content": 2\#(members)}"#,
                family: family
            ).lints
        }
        #expect(try lints(#", "links": {"a": "x:1", "b": "x:2"}"#, .systemSmall) == .severalLinks)
        #expect(try lints(#", "links": {"a": "x:1"}, "url": "x:0""#, .systemSmall) == .severalLinks)
        #expect(try lints(#", "url": "x:0""#, .systemSmall) == [] && lints(#", "links": null"#, .systemSmall) == [])
        for family in WidgetFamily.allCases {
            let isSystem = [.systemMedium, .systemLarge, .systemExtraLarge].contains(family)
            #expect(
                try lints(#", "links": {"a": "x:1", "b": "x:2"}"#, family) == (isSystem ? [] : .severalLinks),
                "\(family)")
        }
        #expect(try lints(#", "links": {"a": "x:1", "b": "x:2"}"#, nil) == [])
    }

    @Test("A new link is a visible change, an empty set of links is left out, and invalid links are refused")
    func content() throws {
        func hash(_ links: String) throws -> ContentHash {
            try Self.parse(#"{"date": "2026-06-22T10:00:00Z", "content": 1\#(links)}"#).hash
        }
        #expect(try hash("") == hash(#", "links": {}"#) && hash("") == hash(#", "links": null"#))
        #expect(try hash("") != hash(#", "links": {"a": "x:1"}"#))
        for bad in [
            #", "links": ["x:1"]"#, #", "links": {"a": 1}"#, #", "links": {"a": ""}"#, #", "links": {"a": "\u0001"}"#,
        ] {
            #expect(throws: (any Error).self, "\(bad)") { try hash(bad) }
        }
    }
}
