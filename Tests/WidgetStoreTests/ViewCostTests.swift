import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// Views are cheap: they write at most a row an hour and widget, and what they write is what the model says.
@Suite("What views cost", .timeLimit(.minutes(5)))
struct ViewCostTests {
    private static let start = Timestamp(microseconds: 1_700_000_000_000_000)

    @Test("100,000 views of 10,000 widgets in an hour write 10,000 rows, all of them widgets")
    func cheap() async throws {
        try await withStore { store in
            let widgets = (0..<10_000).map { "w\($0)" }
            for first in stride(from: 0, to: widgets.count, by: 2_000) {
                try await store.place(widgets[first..<(first + 2_000)].map { .test($0, user: $0) })
            }
            let app = try #require(try await store.directory().apps[TestKinds.app]).id
            let before = try await store.integer("SELECT max(xmin::text::bigint) FROM timeline_state")
            var random = SystemRandomNumberGenerator()
            var written: Int64 = 0
            // Ten rounds within the hour; each widget somewhere in each.
            for round in 0..<10 {
                for first in stride(from: 0, to: widgets.count, by: 5_000) {
                    let views = widgets[first..<(first + 5_000)].map { widget in
                        let second = Int64(round) * 360 + Int64.random(in: 0..<360, using: &random)
                        return WidgetViews(appID: app, widget: widget, times: [Self.start + .seconds(second)])
                    }
                    written += try await store.pool.query(RecordViews(views)).first?.written ?? 0
                }
            }
            #expect(written == 10_000)
            #expect(try await store.integer("SELECT sum(views) FROM widget") == 10_000)
            #expect(try await store.integer("SELECT max(xmin::text::bigint) FROM timeline_state") == before)
        }
    }

    @Test("A view decades after another one is counted like any other")
    func decades() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let app = try #require(try await store.directory().apps[TestKinds.app]).id
            for time in [Timestamp(microseconds: 1), Self.start] {
                let outcome = try await store.pool.query(
                    RecordViews([WidgetViews(appID: app, widget: "w1", times: [time])]))
                #expect(outcome.first?.written == 1)
            }
            #expect(try await store.integer("SELECT (view_rate * 3000)::bigint FROM widget") == 1_000)
        }
    }

    @Test("Which views count, and the rate, are those of the model, however the views are batched")
    func conformance() async throws {
        try await withStore { store in
            var random = SeededRandom(seed: 5)
            let app = try #require(try await store.directory().apps[TestKinds.app]).id
            var widgets: [String: [Timestamp]] = [:]
            for index in 0..<30 {
                // Some out of order, some days apart.
                var second: Int64 = 0
                widgets["w\(index)"] = (0..<40).map { _ in
                    second += Int64.random(in: -600...7_200, using: &random)
                    if Int.random(in: 0..<10, using: &random) == 0 { second += 200_000 }
                    return Self.start + .seconds(second)
                }
            }
            try await store.place(widgets.keys.map { .test($0, user: $0) })
            for (widget, times) in widgets {
                var rest = times[...]
                while !rest.isEmpty {
                    let batch = rest.prefix(Int.random(in: 1...7, using: &random))
                    rest = rest.dropFirst(batch.count)
                    _ = try await store.pool.query(
                        RecordViews([WidgetViews(appID: app, widget: widget, times: Array(batch))]))
                }
            }
            for (widget, times) in widgets {
                let counted = ViewStatistics.counted(times, after: nil)
                var rate = 0.0
                for (index, time) in counted.enumerated() {
                    rate = ViewStatistics.rate(rate, viewedAfter: index > 0 ? time - counted[index - 1] : nil)
                }
                let row = "FROM widget WHERE id = '\(widget)'"
                #expect(try await store.integer("SELECT views \(row)") == counted.count)
                let stored = try await store.integer("SELECT (view_rate * 100000)::bigint \(row)")
                #expect(abs(Double(stored) / 100_000 - rate) < 0.0002)
                #expect(
                    try await store.integer("SELECT (extract(epoch FROM last_viewed_at) * 1000000)::bigint \(row)")
                        == Int(try #require(counted.last).microseconds))
            }
        }
    }
}

/// A seeded sequence (splitmix64).
private struct SeededRandom: RandomNumberGenerator {
    var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
