// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

/// Sums of views and requests of all timelines.
private struct Progress: PostgresStatement {
    struct Row: Sendable {
        let widgets: Int64
        let views: Int64
        let requested: Int64
    }

    let sql = """
        SELECT (SELECT count(*) FROM widget) AS widgets, coalesce(sum(views), 0)::int8 AS views,
               coalesce(sum(requested), 0)::int8 AS requested
        FROM timeline
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(widgets: try row.value("widgets"), views: try row.value("views"), requested: try row.value("requested"))
    }
}

/// Outcome of each widget.
private struct WidgetOutcomes: PostgresStatement {
    struct Row: Sendable, Hashable {
        let widget: String
        let views: Int64
        let requested: Int64
        let isStale: Bool
        let isStored: Bool
    }

    let sql = """
        SELECT w.id, t.views::int8 AS views, t.requested, t.rendered < t.requested AS stale,
               t.content IS NOT NULL AS stored
        FROM widget w JOIN timeline t ON t.id = w.timeline_id
        ORDER BY w.id
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            widget: try row.value("id"), views: try row.value("views"), requested: try row.value("requested"),
            isStale: try row.value("stale"), isStored: try row.value("stored"))
    }
}

@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct TakeoverTests {
    private static let users = 60
    private static let start = Timestamp(rfc3339: "2026-01-01T00:00:00Z") ?? Timestamp(microseconds: 0)

    private static let environment = WidgetPlacement.test("w").environment

    private static func placement(_ user: Int, _ kind: String) -> OutgoingEvent {
        OutgoingEvent(
            .placed(
                WidgetPlacement(
                    app: Installation.app, widget: "u\(user)-\(kind)", user: "u\(user)", device: "d\(user)",
                    kind: kind, family: .systemSmall,
                    environment: environment)),
            time: start)
    }

    /// One view of every widget, and one push for each user's purchases. Views are more than an hour apart, so that
    /// each of them counts.
    private static func round(_ number: Int) -> [OutgoingEvent] {
        let time = start + .seconds(7_200 * (number + 1))
        var events: [OutgoingEvent] = []
        for user in 0..<users {
            for kind in ["RecentPurchases", "DueDate"] {
                let view = FreshetEvent.viewed(app: Installation.app, widget: "u\(user)-\(kind)")
                events.append(OutgoingEvent(view, time: time, key: "u\(user)"))
            }
            let request = ReloadRequest(
                app: Installation.app, audience: .user("u\(user)"), kinds: .kinds(["RecentPurchases"]), reason: .push)
            events.append(OutgoingEvent(.reload(request), time: time))
        }
        return events
    }

    @Test(
        "Stopping one of two processes and killing another while events flow loses and duplicates nothing"
    )
    func takeover() async throws {
        try await withInstallation(isTakenOverSoon: true) { installation in
            let (first, firstReady) = try await installation.run()
            let (second, secondReady) = try await installation.run()
            // Both processes are ready, so both have partitions.
            for ready in [firstReady, secondReady] {
                let health = HealthProbe(port: Int(try #require(ready["apiPort"]?.numberValue?.int64)))
                // A check of the readiness may exceed its time limit on a busy machine.
                try await eventually("the process reports that it is ready") {
                    try await health.ask("ready").document["status"] == "ready"
                }
            }
            try await installation.publish(
                (0..<Self.users).flatMap { [Self.placement($0, "RecentPurchases"), Self.placement($0, "DueDate")] })
            let widgets = Int64(2 * Self.users)
            try await eventually("all widgets are placed") {
                try await Self.progress(of: installation).widgets == widgets
            }

            var rounds = 0
            func publish(_ count: Int) async throws {
                for _ in 0..<count {
                    try await installation.publish(Self.round(rounds))
                    rounds += 1
                }
            }
            func applies(views rounds: Int) async throws {
                try await eventually("views of round \(rounds) are applied") {
                    try await Self.progress(of: installation).views >= Int64(rounds) * widgets
                }
            }
            try await publish(10)
            try await applies(views: 5)
            first.send(signal: SIGTERM)
            try await publish(10)
            #expect(try await first.end() == FreshetProcess.Exit(status: 0, isSignal: false))
            try await publish(5)
            // The second process has taken over: it applies events published after the first one ended.
            try await applies(views: 21)
            try await publish(3)
            second.send(signal: SIGKILL)
            try await publish(10)
            #expect(try await second.end() == FreshetProcess.Exit(status: SIGKILL, isSignal: true))

            let (third, _) = try await installation.run()
            try await publish(2)
            let published = rounds
            try await applies(views: published)
            // Pushes use another topic than views.
            let requests = widgets + Int64(published * Self.users)
            try await eventually("the pushes are applied") {
                try await Self.progress(of: installation).requested >= requests
            }
            try await eventually("every requested reload is rendered") {
                let overview = try await installation.store.pool.query(.overview())[0]
                return overview.stale == 0 && overview.due == 0 && overview.leased == 0
            }

            let outcomes = try await installation.store.pool.query(WidgetOutcomes())
            #expect(outcomes.count == Int(widgets))
            for outcome in outcomes {
                let pushes = outcome.widget.hasSuffix("RecentPurchases") ? published : 0
                #expect(
                    outcome
                        == WidgetOutcomes.Row(
                            widget: outcome.widget, views: Int64(published), requested: Int64(1 + pushes),
                            isStale: false, isStored: true))
            }
            #expect(try await installation.store.integer("SELECT count(*) FROM dead_letter") == 0)
            third.send(signal: SIGTERM)
            #expect(try await third.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        }
    }

    private static func progress(of installation: Installation) async throws -> Progress.Row {
        try await installation.store.pool.query(Progress())[0]
    }
}
