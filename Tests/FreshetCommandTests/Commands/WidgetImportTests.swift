// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetService
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import freshet

@Suite(.timeLimit(.patience))
struct WidgetImportTests {
    private static let app = TestKinds.app

    /// Returns a line with default values.
    private static func line(
        _ widget: String, kind: String = "Purchases", user: String = "u1", configuration: String = "{}",
        time: String? = "2026-01-01T00:00:00Z", family: String = "systemSmall", app: String = TestKinds.app
    ) -> String {
        let time = time.map { #","time":"\#($0)""# } ?? ""
        return #"{"app":"\#(app)","widget":"\#(widget)","user":"\#(user)","device":"d","kind":"\#(kind)","#
            + #""family":"\#(family)","configuration":\#(configuration),"#
            + #""environment":{"locale":"en-GB","timeZone":"Europe/London"}\#(time)}"#
    }

    private func importing(
        _ lines: [String], into store: TestStore, chunk: Int = 10_000
    ) async throws -> (summary: (counts: ImportCounts, refused: Int), complaints: [String]) {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("import-\(UUID().uuidString).jsonl")
        try lines.joined(separator: "\n").write(to: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(at: file) }
        let reader = try LineReader(file.path, maximumBytes: ImportedItem.maximumBytes)
        let now = try #require(Timestamp(rfc3339: "2026-06-01T00:00:00Z"))
        var complaints: [String] = []
        let summary = try await store.store.importItems(
            reader, of: try await store.directory(), now: now, chunk: chunk, complain: { complaints.append($0) },
            progress: { _ in })
        return (summary, complaints)
    }

    private func counts(widgets: Int, timelines: Int, older: Int = 0) -> ImportCounts {
        var counts = ImportCounts()
        counts.widgets = widgets
        counts.timelines = timelines
        counts.older = older
        return counts
    }

    @Test(
        "New widgets get timelines that are due now in the bulk lane, over any number of chunks",
        arguments: [1, 3, 100])
    func new(_ chunk: Int) async throws {
        try await withStore { store in
            let lines = (0..<10).map { Self.line("w\($0)", user: "u\($0 / 2)", configuration: #"{"n":\#($0)}"#) }
            let (summary, complaints) = try await importing(lines, into: store, chunk: chunk)
            #expect(summary.counts == counts(widgets: 10, timelines: 10))
            #expect(complaints.isEmpty)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM timeline WHERE listed_lane = 3 AND listed_at <= now() AND requested = 1"
                )
                    == 10)
            let widget = try #require(
                try await store.pool.query(.listWidgets(WidgetFilter(app: Self.app, widget: "w3"), limit: 1)).first)
            #expect(widget.user == "u1" && widget.configuration == #"{"n":3}"#)
            #expect(widget.placedAt == Timestamp(rfc3339: "2026-01-01T00:00:00Z"))
        }
    }

    @Test("Imported widgets get the same timelines as by events")
    func identity() async throws {
        try await withStore { store in
            let placed = try await store.place([
                .test("e1", configuration: #"{"a":1}"#),
                .test("e2", kind: "Weather", configuration: #"{"city":"Oslo"}"#),
            ])
            try await store.settle()
            let (summary, _) = try await importing(
                [
                    Self.line("i1", configuration: #"{ "a": 1.0 }"#),
                    Self.line(
                        "i2", kind: "Weather", user: "someone", configuration: #"{"city":"Oslo"}"#,
                        family: "systemLarge"),
                ], into: store)
            // Both timelines are shown already; their content serves the new widgets, too.
            #expect(summary.counts == counts(widgets: 2, timelines: 0))
            for (widget, timeline) in zip(["i1", "i2"], placed) {
                let found = try await store.pool.query(
                    .listWidgets(WidgetFilter(app: Self.app, widget: widget), limit: 1))
                #expect(found.first?.timelineID == timeline)
            }
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE listed_at < 'infinity'") == 0)
        }
    }

    @Test("An older time never overrides a newer widget; an equal or newer one does")
    func older() async throws {
        try await withStore { store in
            let time = try #require(Timestamp(rfc3339: "2026-01-02T00:00:00Z"))
            try await store.place([.test("w", configuration: #"{"v":"stored"}"#)], at: time)
            func configuration() async throws -> String? {
                try await store.pool.query(.listWidgets(WidgetFilter(app: Self.app, widget: "w"), limit: 1)).first?
                    .configuration
            }
            let before = try await importing(
                [Self.line("w", configuration: #"{"v":"older"}"#, time: "2026-01-01T23:59:59.999999Z")], into: store)
            #expect(before.summary.counts == counts(widgets: 0, timelines: 0, older: 1))
            #expect(try await configuration() == #"{"v":"stored"}"#)
            // The timeline for the older line is not created.
            #expect(try await store.integer("SELECT count(*) FROM timeline") == 1)

            let equal = try await importing(
                [Self.line("w", configuration: #"{"v":"equal"}"#, time: "2026-01-02T00:00:00Z")], into: store)
            #expect(equal.summary.counts == counts(widgets: 1, timelines: 1))
            #expect(try await configuration() == #"{"v":"equal"}"#)
            // No widget shows the first timeline any more.
            #expect(
                try await store.integer("SELECT count(*) FROM timeline WHERE orphaned AND listed_at <= now()") == 1)
        }
    }

    @Test("A removed widget's tombstone overrides older lines and yields to newer ones")
    func removed() async throws {
        try await withStore { store in
            try await store.place([.test("w")])
            try await store.sql("UPDATE widget SET timeline_id = NULL, changed_at = '2026-01-02T00:00:00Z'")
            try await store.sql("UPDATE timeline SET orphaned = true, requested = 5, rendered = 5")
            _ = try await importing([Self.line("w", time: "2026-01-01T00:00:00Z")], into: store)
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NULL") == 1)
            let (summary, _) = try await importing([Self.line("w", time: "2026-01-03T00:00:00Z")], into: store)
            // The removed widget's timeline still exists: none is created.
            #expect(summary.counts == counts(widgets: 1, timelines: 0))
            #expect(
                try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned AND requested = 6") == 1
            )
        }
    }

    @Test("The newest of several lines for one widget applies; at equal times, the last")
    func duplicates() async throws {
        try await withStore { store in
            let (summary, _) = try await importing(
                [
                    Self.line("w", configuration: #"{"v":1}"#, time: "2026-01-02T00:00:00Z"),
                    Self.line("w", configuration: #"{"v":2}"#, time: "2026-01-03T00:00:00Z"),
                    Self.line("w", configuration: #"{"v":3}"#, time: "2026-01-03T00:00:00Z"),
                    Self.line("w", configuration: #"{"v":4}"#, time: "2026-01-01T00:00:00Z"),
                    Self.line("w", configuration: #"{"v":5}"#, time: "2026-01-03T00:00:00Z", app: TestKinds.otherApp),
                ], into: store)
            #expect(summary.counts == counts(widgets: 2, timelines: 2, older: 3))
            let widget = try await store.pool.query(.listWidgets(WidgetFilter(app: Self.app, widget: "w"), limit: 1))
                .first
            #expect(widget?.configuration == #"{"v":3}"#)
        }
    }

    @Test("Every bad line is reported with its number and skipped; the others are imported")
    func badLines() async throws {
        try await withStore { store in
            let (summary, complaints) = try await importing(
                [
                    Self.line("ok1"), "not json", "", Self.line("x", kind: "Purchase"),
                    Self.line("x", app: "com.example.none"),
                    Self.line("x", kind: "DueDate", family: "systemLarge"), Self.line("x", time: "yesterday"),
                    #"{"app":"com.example.bank","widget":"x"}"#, Self.line("x", configuration: #"{"a":{"b":[]}}"#),
                    String(repeating: " ", count: ImportedItem.maximumBytes + 1), Self.line("ok2", time: nil), "[1]",
                ], into: store, chunk: 2)
            #expect(summary.refused == 9)
            #expect(summary.counts.widgets == 2)
            let expected = [
                "line 2: ", "line 4: /kind: ", "line 5: /app: ", "line 6: /family: ", "line 7: /time: ",
                "line 8: /user: ",
                "line 9: /configuration/a/b: ", "line 10: longer than", "line 12: ",
            ]
            #expect(complaints.count == expected.count)
            for (complaint, start) in zip(complaints, expected) { #expect(complaint.hasPrefix(start), "\(complaint)") }
            #expect(complaints[1].contains("did you mean \"Purchases\""))
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE id = 'x'") == 0)
            // A line without a time gets the time of the import.
            let second = try await store.pool.query(.listWidgets(WidgetFilter(app: Self.app, widget: "ok2"), limit: 1))
                .first
            #expect(second?.changedAt == Timestamp(rfc3339: "2026-06-01T00:00:00Z"))
        }
    }

    @Test("Concurrent imports of the same widgets store each widget once")
    func concurrent() async throws {
        try await withStore { store in
            let lines = (0..<600).map { Self.line("w\($0)", user: "u\($0)") }
            try await withThrowingTaskGroup(of: Int.self) { group in
                for round in 0..<4 {
                    let lines = round % 2 == 0 ? lines : lines.reversed()
                    group.addTask {
                        try await importing(lines, into: store, chunk: 150).summary.counts.widgets
                    }
                }
                for try await widgets in group { #expect(widgets == 600) }
            }
            #expect(try await store.integer("SELECT count(*) FROM widget") == 600)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE requested = 1") == 600)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE orphaned") == 0)
        }
    }

    @Test("A chunk of ten thousand lines is one set, whatever is already stored")
    func large() async throws {
        try await withStore { store in
            let lines = (0..<25_000).map {
                Self.line("w\($0)", user: "u\($0 / 5)", configuration: #"{"n":\#($0 % 5)}"#)
            }
            let (summary, _) = try await importing(lines, into: store)
            #expect(summary.counts == counts(widgets: 25_000, timelines: 25_000))
            let again = try await importing(lines, into: store)
            #expect(again.summary.counts == counts(widgets: 25_000, timelines: 0))
        }
    }
}
