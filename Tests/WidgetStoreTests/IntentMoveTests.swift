// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// DESIGN.md, D: a changed definition.
@Suite("Moving widgets when the intent changes", .timeLimit(.patience))
struct IntentMoveTests {
    private func definition(_ parameters: IntentParameter...) -> IntentDefinition {
        IntentDefinition(title: "Purchases", parameters: parameters)
    }

    private func widget(_ id: String, _ store: TestStore) async throws -> WidgetDetail {
        let filter = WidgetFilter(app: TestKinds.app, widget: id)
        return try #require(try await store.pool.query(.listWidgets(filter, limit: 1)).first)
    }

    private func shown(_ id: String, _ store: TestStore) async throws -> String {
        try await store.shown(id).timeline.configuration.canonical
    }

    private let card = IntentParameter(name: "card", displayName: "Card", type: .custom(typeName: "Card"))
    private let count = IntentParameter(
        name: "count", displayName: "Count", type: .integer(.init(maximum: 5), .field),
        defaultValue: .number(JSONNumber(1)))

    /// Places a widget that fits the intent of both parameters and one whose count is above the maximum.
    private func withMisfits(_ body: (_ store: TestStore, _ kindID: Int32) async throws -> Void) async throws {
        try await withStore { store in
            try await store.place([
                .test("w1", configuration: #"{"card":"acme","count":3}"#),
                .test("w2", user: "u2", configuration: #"{"count":9}"#),
            ])
            let kindID = try await store.change { $0.intent = definition(card, count) }
            try await store.moveAll(kindID)
            try await body(store, kindID)
            #expect(try await store.moves() == 0)
        }
    }

    @Test("DESIGN.md, D: a changed intent keeps configurations; values that no longer fit are reported and counted")
    func misfits() async throws {
        try await withMisfits { store, kindID in
            let (fitting, misfit) = try await (widget("w1", store), widget("w2", store))
            #expect(fitting.misfits == [])
            #expect(misfit.configuration == #"{"count":9}"#)
            #expect(misfit.misfits.map(\.pointer) == ["/count"])
            #expect(try await shown("w2", store) == #"{"count":1}"#)
            #expect(try await store.pool.query(.countMisfits(kindID: kindID)) == [1])
        }
    }

    @Test("D: applying a changed intent counts the timelines that will move")
    func countOfMoves() async throws {
        try await withMisfits { store, _ in
            func moving(_ parameters: [IntentParameter]) async throws -> Int? {
                let intent = IntentDefinition(title: "Purchases", parameters: parameters)
                let apps = try await store.changing("Purchases") { $0.intent = intent }
                let change = try await store.store.difference(apps).first { $0.kind == "Purchases" }
                #expect(change?.movingIsMinimum == false)
                return change?.moving
            }
            var renamed = count
            renamed.displayName = "Number"
            // w1 has a value of its own, and w2 the default.
            var other = count
            other.defaultValue = .number(JSONNumber(2))
            var moves: [Int?] = []
            for parameters in [[card, renamed], [card, other], [card]] { moves.append(try await moving(parameters)) }
            #expect(moves == [0, 1, 2])
        }
    }

    @Test("It is not known how many timelines of a shared kind a changed intent moves")
    func unknownCountOfMoves() async throws {
        try await withStore { store in
            let city = IntentParameter(name: "city", displayName: "City", type: .string(.words), defaultValue: "Oslo")
            let apps = try await store.changing("Weather") { $0.intent = definition(city) }
            let change = try #require(try await store.store.difference(apps).first { $0.kind == "Weather" })
            #expect(change.moving == 0 && change.movingIsMinimum)
            let split = try await store.changing("Weather") {
                $0.intent = definition(city)
                $0.sharing = .perUser
            }
            #expect(try await store.store.difference(split).first { $0.kind == "Weather" }?.movingIsMinimum == true)
        }
    }

    @Test("A value without a parameter stays in the widget's configuration and is not in its timeline's")
    func parameterRemoved() async throws {
        try await withMisfits { store, kindID in
            _ = try await store.change { $0.intent = definition(card) }
            try await store.moveAll(kindID)
            #expect(try await widget("w1", store).configuration == #"{"card":"acme","count":3}"#)
            #expect(try await shown("w1", store) == #"{"card":"acme"}"#)
            #expect(try await store.pool.query(.countMisfits(kindID: kindID)) == [2])
        }
    }

    @Test("Without an intent every value is valid again")
    func intentRemoved() async throws {
        try await withMisfits { store, kindID in
            _ = try await store.change { $0.intent = nil }
            try await store.moveAll(kindID)
            #expect(try await shown("w2", store) == #"{"count":9}"#)
            #expect(try await store.pool.query(.countMisfits(kindID: kindID)) == [0])
        }
    }

    @Test("Widgets that leave a shared timeline are found among many that stay")
    func someLeave() async throws {
        try await withStore { store in
            let city = IntentParameter(name: "city", displayName: "City", type: .string(.words), defaultValue: "Oslo")
            let kindID = try await store.change("Weather") { $0.intent = definition(city) }
            try await store.moveAll(kindID)
            try await store.place(
                (0..<30).map {
                    .test(
                        "w\($0)", user: "u\($0)", kind: "Weather",
                        configuration: $0 % 10 == 9 ? "{}" : #"{"city":"Oslo"}"#)
                })
            #expect(try await store.integer("SELECT count(DISTINCT timeline_id) FROM widget") == 1)
            var other = city
            other.defaultValue = "Rome"
            _ = try await store.change("Weather") { [other] in $0.intent = definition(other) }
            try await store.moveAll(kindID, limit: 2)
            for (widget, expected) in [("w9", "Rome"), ("w29", "Rome"), ("w0", "Oslo")] {
                #expect(try await store.shown(widget).timeline.configuration.canonical == #"{"city":"\#(expected)"}"#)
            }
            #expect(try await store.moves() == 0)
        }
    }
}
