// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.timeLimit(.patience))
struct TimelineIdentityTests {
    struct Parts {
        var app = "com.example.bank"
        var kind = "RecentPurchases"
        var family = WidgetFamily.systemSmall
        var configuration = #"{"card":"acme"}"#
        var locale = "en-US"
        var timeZone = "Europe/Berlin"
        var user = "u42"

        func identity(_ sharing: KindSharing = .perUser, _ variation: KindVariation = .all) throws -> TimelineIdentity {
            TimelineIdentity(
                app: app, kind: kind, sharing: sharing, variesBy: variation, family: family,
                configuration: try WidgetConfiguration(json: bytes(configuration)),
                environment: try WidgetEnvironment(locale: locale, timeZone: timeZone), user: user)
        }
    }

    /// Changes of one component each.
    static let changes: [(name: String, apply: @Sendable (inout Parts) -> Void)] = [
        ("app", { $0.app = "com.example.bank2" }), ("kind", { $0.kind = "DueDate" }),
        ("family", { $0.family = .systemMedium }), ("configuration", { $0.configuration = "{}" }),
        ("locale", { $0.locale = "de-DE" }), ("timeZone", { $0.timeZone = "UTC" }), ("user", { $0.user = "u43" }),
    ]

    @Test func idIsStable() throws {
        // Computed independently of this code. IDs are stored in databases: a change of the form requires another
        // version and a migration.
        #expect(try Parts().identity().id.description == "70bc63ee-0e94-02e7-02f9-bb29612c2585")
        #expect(try Parts().identity(.shared, []).id.description == "f92ae7b1-ce4a-dfb4-a610-a9d39ffd1540")
    }

    @Test func everyComponentCounts() throws {
        let base = try Parts().identity()
        for change in Self.changes {
            var parts = Parts()
            change.apply(&parts)
            let changed = try parts.identity()
            #expect(changed.id != base.id, "\(change.name)")
            #expect(changed != base, "\(change.name)")
        }
    }

    @Test func whatTheKindDoesNotVaryByIsIgnored() throws {
        for raw in 0...KindVariation.all.rawValue {
            let variation = KindVariation(rawValue: raw)
            for sharing in KindSharing.allCases {
                let base = try Parts().identity(sharing, variation)
                for change in Self.changes {
                    var parts = Parts()
                    change.apply(&parts)
                    let counts =
                        switch change.name {
                        case "user": sharing == .perUser
                        case "family", "locale", "timeZone": variation.names.contains(change.name)
                        default: true
                        }
                    let changed = try parts.identity(sharing, variation)
                    #expect((changed.id != base.id) == counts, "\(change.name) of \(variation.names) \(sharing.name)")
                    #expect((changed != base) == counts)
                }
            }
        }
    }

    @Test func absentIsNotEmptyAndBordersCount() throws {
        func identity(app: String, kind: String, user: String?) -> TimelineID {
            TimelineIdentity(
                app: app, kind: kind, family: nil, configuration: .empty, locale: nil, timeZone: nil, user: user
            ).id
        }
        let ids = [
            identity(app: "ab", kind: "c", user: nil), identity(app: "a", kind: "bc", user: nil),
            identity(app: "ab", kind: "c", user: ""), identity(app: "", kind: "abc", user: nil),
            identity(app: "\u{E9}", kind: "c", user: nil), identity(app: "e\u{301}", kind: "c", user: nil),
        ]
        #expect(Set(ids).count == ids.count)
    }

    @Test func orderOfConfigurationDoesNotCount() throws {
        var parts = Parts()
        parts.configuration = #"{"a":1,"b":2}"#
        let base = try parts.identity()
        parts.configuration = #"{ "b": 2.0, "a": 1 }"#
        #expect(try parts.identity() == base)
        #expect(try parts.identity().id == base.id)
        #expect(try parts.identity().hashValue == base.hashValue)
    }

    @Test func sharedWidgetsShowOneTimeline() throws {
        let kind = KindDefinition(
            name: "Weather", sharing: .shared, variesBy: [], providerURL: "http://provider", placeholder: nil)
        let environments = try ["en-US", "de-DE"].map { try WidgetEnvironment(locale: $0, timeZone: "UTC") }
        var ids: Set<TimelineID> = []
        for user in 0..<100 {
            for city in 0..<10 {
                let placement = WidgetPlacement(
                    app: "com.example.weather", widget: "w\(user)-\(city)", user: "u\(user)", device: "d\(user)",
                    kind: "Weather", family: WidgetFamily.allCases[user % 7],
                    configuration: try WidgetConfiguration(["city": .string("\(city)")]),
                    environment: environments[user % 2])
                ids.insert(kind.identity(of: placement).id)
            }
        }
        #expect(ids.count == 10)
    }
}
