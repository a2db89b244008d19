// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

/// Rows of DESIGN.md, “A. Definition”, checked with `KindDefinition` for kinds and `TimelineIdentity` for
/// placements.
@Suite("Design, part A: definition", .tags(.rules), .timeLimit(.patience))
struct DesignPartATests {
    private func kind(_ name: String, families: [WidgetFamily] = []) -> KindDefinition {
        KindDefinition(name: name, families: families, providerURL: "http://provider", placeholder: [:])
    }

    private func placement(
        _ widget: String, _ kind: String, family: WidgetFamily = .systemSmall, configuration: JSONValue = [:]
    ) throws -> WidgetPlacement {
        WidgetPlacement(
            app: "com.example.app", widget: widget, user: "u1", device: "d1", kind: kind, family: family,
            configuration: try WidgetConfiguration(configuration),
            environment: try WidgetEnvironment(locale: "en-US", timeZone: "UTC"))
    }

    @Test("An app has many kinds, each with a name")
    func manyKinds() throws {
        let manifest: JSONValue = [
            "app": "com.example.stocks", "provider": ["url": "http://provider"],
            "kinds": .array(
                ["Stocks overview", "Stocks detail"].map {
                    ["name": .string($0), "placeholder": [:]]
                }),
        ]
        let app = try #require(AppDefinition.validate(manifest: manifest).definition)
        #expect(app.kinds.map(\.name) == ["Stocks overview", "Stocks detail"])
        let ids = try app.kinds.map { $0.identity(of: try placement("w", $0.name)).id }
        #expect(ids[0] != ids[1])
    }

    @Test("Widgets of a kind without parameters show one timeline per user and family")
    func staticKind() throws {
        let fitness = kind("Fitness")
        let ids = try ["phone", "tablet", "watch"].map { fitness.identity(of: try placement($0, "Fitness")).id }
        #expect(Set(ids).count == 1)
    }

    @Test(
        "A kind can be configured, and placed many times with different configurations",
        arguments: [("Reminders", "list", ["Home", "Work"]), ("Due Date", "card", ["acme", "soup", "gold"])])
    func configurable(name: String, parameter: String, values: [String]) throws {
        let kind = kind(name)
        let ids = try values.map { value in
            kind.identity(of: try placement(value, name, configuration: [parameter: .string(value)])).id
        }
        #expect(Set(ids).count == values.count)
        let again = try placement("another", name, configuration: [parameter: .string(values[0])])
        #expect(kind.identity(of: again).id == ids[0], "equal content is one timeline")
    }

    @Test("A kind supports all families unless it lists some")
    func families() throws {
        #expect(kind("Hero").families == WidgetFamily.allCases)
        let json: JSONValue = ["name": "Hero", "providerURL": "http://provider", "placeholder": [:]]
        #expect(try #require(KindDefinition.validate(json).definition).families == WidgetFamily.allCases)
        #expect(kind("Hero", families: [.systemSmall]).families == [.systemSmall])
    }

    @Test("Content differs by family")
    func contentByFamily() throws {
        var rangers = kind("Emoji Rangers", families: [.systemSmall, .systemMedium])
        func ids() throws -> [TimelineID] {
            try rangers.families.map { rangers.identity(of: try placement("w", "Emoji Rangers", family: $0)).id }
        }
        #expect(Set(try ids()).count == 2)
        rangers.variesBy = [.locale]
        #expect(Set(try ids()).count == 1, "unless the kind does not vary by family")
    }

    @Test("A placeholder is required and is the same for all users")
    func placeholder() throws {
        let json: JSONValue = ["name": "Hero", "providerURL": "http://provider"]
        let errors = KindDefinition.validate(json).errors
        #expect(errors.map(\.pointer) == ["/placeholder"])
    }

    @Test("A kind has a display name, a description and named colours")
    func presentation() throws {
        let json: JSONValue = [
            "name": "Hero", "providerURL": "http://provider", "placeholder": [:], "displayName": "Ranger detail",
            "description": "See your favourite ranger.", "accentColor": "AccentColor", "backgroundColor": "Night",
        ]
        let kind = try #require(KindDefinition.validate(json).definition)
        #expect(kind.displayName == "Ranger detail" && kind.description == "See your favourite ranger.")
        #expect(kind.accentColor == "AccentColor" && kind.backgroundColor == "Night")
        #expect(try KindDefinition(json: kind.json()) == kind)
    }

    @Test("Links follow the configuration")
    func links() throws {
        let heroes = ["power-panda", "egghead", "spouty"]
        let kind = kind("Hero")
        let ids = try heroes.map {
            kind.identity(of: try placement($0, "Hero", configuration: ["hero": .string($0)])).id
        }
        let elements = zip(ids, heroes).map { id, hero in
            // The smallest family has a single link; further links of larger families are part of the content.
            #"{"id":"\#(id)","policy":"never","entries":[{"date":"2020-06-22T10:00:00Z","#
                + #""content":{"links":["game:///\#(hero)","game:///all"]},"url":"game:///\#(hero)"}]}"#
        }
        let response = try ProviderResponse.parse(
            bytes(#"{"timelines":[\#(elements.joined(separator: ","))]}"#), requested: ids.map { RequestedTimeline($0) }
        )
        for (outcome, hero) in zip(response.outcomes, heroes) {
            guard case .success(let parsed) = outcome else {
                Issue.record("\(outcome)")
                continue
            }
            let entry = try Timeline(stored: parsed.content).entries[0]
            #expect(entry.url == "game:///\(hero)")
            #expect(entry.content == ["links": [.string("game:///\(hero)"), "game:///all"]])
        }
    }
}

@Suite("Design, part B: snapshot, timeline", .tags(.rules), .timeLimit(.patience))
struct DesignPartBTests {
    private let now = time("2020-06-22T10:00:00Z")
    private let id = TimelineID(high: 1, low: 2)

    private func parse(_ entries: [String], policy: String = #""atEnd""#) throws -> (ParsedTimeline, Timeline) {
        let text =
            #"{"timelines":[{"id":"\#(id)","policy":\#(policy),"entries":[\#(entries.joined(separator: ","))]}]}"#
        let response = try ProviderResponse.parse(bytes(text), requested: [RequestedTimeline(id)])
        guard case .success(let parsed) = response.outcomes[0] else {
            throw ModelError(message: "\(response.outcomes[0])")
        }
        return (parsed, try Timeline(stored: parsed.content))
    }

    @Test("A timeline with a single entry, as a snapshot usually is, is valid")
    func snapshot() throws {
        let (parsed, timeline) = try parse([#"{"date":"2020-06-22T10:00:00Z","content":{"real":true}}"#])
        #expect(try parsed.entryCount == 1 && timeline.entry(at: now)?.content == ["real": true])
        #expect(KindDefinition(name: "Hero", providerURL: "http://provider", placeholder: nil).hasSnapshots)
    }

    @Test("A timeline has entries (date, content, optional relevance) and a policy, and variants for light and dark")
    func parts() throws {
        let (_, timeline) = try parse([
            #"{"date":"2020-06-22T10:00:00Z","content":{"light":{"ink":"black"},"dark":{"ink":"white"}},"#
                + #""relevance":{"score":16.29,"duration":1800}}"#,
            #"{"date":"2020-06-22T11:00:00Z","content":null}"#,
        ])
        #expect(timeline.entries[0].content == ["light": ["ink": "black"], "dark": ["ink": "white"]])
        #expect(timeline.entries[0].relevance == EntryRelevance(score: 16.29, duration: 1800))
        #expect(timeline.entries[1].relevance == nil && timeline.policy == .atEnd)
    }

    @Test("Entries may have equal dates and any order; the last given one of equal dates is shown")
    func equalDates() throws {
        let (_, timeline) = try parse(
            [("11", "c"), ("10", "a"), ("12", "d"), ("10", "b"), ("12", "e")].map {
                #"{"date":"2020-06-22T\#($0.0):00:00Z","content":"\#($0.1)"}"#
            })
        #expect(timeline.entries.map(\.content) == ["a", "b", "c", "d", "e"])
        #expect(try timeline.entry(at: now)?.content == "b")
        #expect(try timeline.entry(at: now + .hours(2))?.content == "e")
    }

    @Test("A timeline may have a week of entries, one every quarter of an hour")
    func days() throws {
        let dates = (0..<672).map { now + .minutes(15 * $0) }
        let (parsed, timeline) = try parse(dates.map { #"{"date":"\#($0.rfc3339)","content":0}"# })
        #expect(parsed.entryCount == 672 && timeline.lastEntryDate == now + .days(7) - .minutes(15))
        #expect(ReloadRules.test().due(timeline.policy, lastEntry: parsed.lastEntryDate, renderedAt: now) == dates[671])
    }

    @Test(
        "the entry shown at time t is the last one whose date <= t",
        arguments: [
            ("2020-06-22T09:59:59.999999Z", nil), ("2020-06-22T10:00:00Z", "a"), ("2020-06-22T10:29:59.999999Z", "a"),
            ("2020-06-22T10:30:00Z", "b"), ("2020-06-22T10:59:59Z", "b"), ("2020-06-22T11:00:00Z", "d"),
            ("2020-06-29T11:00:00Z", "d"),
        ] as [(String, String?)])
    func shown(at text: String, content: String?) throws {
        let dates = [("11:00", "c"), ("10:30", "b"), ("11:00", "d"), ("10:00", "a")]
        let (_, timeline) = try parse(
            dates.map { #"{"date":"2020-06-22T\#($0.0):00Z","content":"\#($0.1)"}"# }, policy: #""never""#)
        #expect(try timeline.entry(at: time(text))?.content == content.map { .string($0) })
    }

    /// "Entries every minute from now while before the end (end excluded), relevance = health".
    @Test(
        "Healing within 10 minutes has 10 entries, then reloads at the end",
        arguments: [(10, 10), (1, 1), (60, 60)])
    func healing(minutes: Int, count: Int) throws {
        let end = now + .minutes(minutes)
        var entries: [String] = []
        var date = now
        while date < end {
            let health = 1 - Double((end - date).components.seconds) / Double(60 * minutes)
            entries.append(#"{"date":"\#(date.rfc3339)","content":null,"relevance":{"score":\#(health)}}"#)
            date = date + .minutes(1)
        }
        let (parsed, timeline) = try parse(entries)
        #expect(parsed.entryCount == count)
        #expect(timeline.entries.allSatisfy { $0.date < end })
        #expect(timeline.entries[0].relevance?.score == 0)
        #expect(timeline.lastEntryDate == end - .minutes(1))
        // With atEnd the next timeline is requested at the last entry, or when the spacing allows it.
        let due = ReloadRules.test().due(timeline.policy, lastEntry: parsed.lastEntryDate, renderedAt: now)
        #expect(due == max(end - .minutes(1), now + .minutes(5)))
    }
}
