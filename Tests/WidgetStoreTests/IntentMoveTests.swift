import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// `widget-rules.md` D: a definition that changes.
@Suite("Moving widgets when the intent changes", .timeLimit(.patience))
struct IntentMoveTests {
    /// Applies a change and answers the kind's row id.
    private func change(
        _ store: TestStore, _ kind: String = "Purchases", _ change: (inout KindDefinition) -> Void
    ) async throws -> Int32 {
        try await store.apply(try await store.changing(kind, change))
        let directory = try await store.directory()
        return try #require(directory.apps[TestKinds.app].flatMap { directory.kind(kind, of: $0) }).id
    }

    /// Moves until nothing is left to be moved now; answers how many chunks that took.
    @discardableResult
    private func moveAll(
        _ kindID: Int32, _ store: TestStore, limit: Int = 100, settling: Duration = .zero
    ) async throws -> Int {
        var chunks = 0
        while try await store.store.changeChunk(kindID: kindID, limit: limit, settling: settling) != nil {
            chunks += 1
            try #require(chunks < 1_000, "it ends")
        }
        return chunks
    }

    private func moves(_ store: TestStore) async throws -> Int {
        try await store.integer("SELECT count(*) FROM kind_change WHERE NOT retires")
    }

    private func shown(_ widget: String, _ store: TestStore) async throws -> TimelineDetail {
        let id = try #require(try await store.widget(widget)?.timelineID)
        return try #require(try await store.timeline(id))
    }

    private func definition(_ parameters: IntentParameter...) -> IntentDefinition {
        IntentDefinition(title: "Purchases", parameters: parameters)
    }

    @Test("widget-rules D: a changed intent keeps configurations; values that fit no more are shown and counted")
    func misfits() async throws {
        try await withStore { store in
            try await store.place([
                .test("w1", configuration: #"{"card":"acme","count":3}"#),
                .test("w2", user: "u2", configuration: #"{"count":9}"#),
            ])
            let card = IntentParameter(name: "card", displayName: "Card", type: .custom(typeName: "Card"))
            let count = IntentParameter(
                name: "count", displayName: "Count", type: .integer(.init(maximum: 5), .field),
                defaultValue: .number(JSONNumber(1)))
            let kindID = try await change(store) { $0.intent = definition(card, count) }
            try await moveAll(kindID, store)
            func widget(_ id: String) async throws -> WidgetDetail {
                let filter = WidgetFilter(app: TestKinds.app, widget: id)
                return try #require(try await store.pool.query(.listWidgets(filter, limit: 1)).first)
            }
            #expect(try await widget("w1").misfits == [])
            #expect(try await widget("w2").configuration == #"{"count":9}"#)
            #expect(try await widget("w2").misfits.map(\.pointer) == ["/count"])
            #expect(try await shown("w2", store).timeline.configuration.canonical == #"{"count":1}"#)
            #expect(try await store.pool.query(.countMisfits(kindID: kindID)) == [1])

            // Without the parameter the value stays, and counts nowhere.
            _ = try await change(store) { $0.intent = definition(card) }
            try await moveAll(kindID, store)
            #expect(try await widget("w1").configuration == #"{"card":"acme","count":3}"#)
            #expect(try await shown("w1", store).timeline.configuration.canonical == #"{"card":"acme"}"#)
            #expect(try await store.pool.query(.countMisfits(kindID: kindID)) == [2])

            // Without an intent every value counts again.
            _ = try await change(store) { $0.intent = nil }
            try await moveAll(kindID, store)
            #expect(try await shown("w2", store).timeline.configuration.canonical == #"{"count":9}"#)
            #expect(try await store.pool.query(.countMisfits(kindID: kindID)) == [0])
            #expect(try await moves(store) == 0)
        }
    }

    @Test("Widgets of a shared timeline that are to leave are found among many that stay")
    func someLeave() async throws {
        try await withStore { store in
            let city = IntentParameter(name: "city", displayName: "City", type: .string(.words), defaultValue: "Oslo")
            let kindID = try await change(store, "Weather") { $0.intent = definition(city) }
            try await moveAll(kindID, store)
            try await store.place(
                (0..<30).map {
                    .test(
                        "w\($0)", user: "u\($0)", kind: "Weather",
                        configuration: $0 % 10 == 9 ? "{}" : #"{"city":"Oslo"}"#)
                })
            #expect(try await store.integer("SELECT count(DISTINCT timeline_id) FROM widget") == 1)
            var other = city
            other.defaultValue = "Rome"
            _ = try await change(store, "Weather") { [other] in $0.intent = definition(other) }
            try await moveAll(kindID, store, limit: 2)
            for (widget, expected) in [("w9", "Rome"), ("w29", "Rome"), ("w0", "Oslo")] {
                #expect(try await shown(widget, store).timeline.configuration.canonical == #"{"city":"\#(expected)"}"#)
            }
            #expect(try await moves(store) == 0)
        }
    }
}
