// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

/// A process that is suspended beyond its session, and resumes when others have its partitions.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct ZombieTests {
    private static let users = 40
    private static let start = Timestamp(rfc3339: "2026-01-01T00:00:00Z") ?? Timestamp(microseconds: 0)

    /// One view of every widget, and one push for each user. Views are over an hour apart, so that each of them counts.
    private static func round(_ number: Int) -> [OutgoingEvent] {
        let time = start + .seconds(7_200 * (number + 1))
        return (0..<users).flatMap { user -> [OutgoingEvent] in
            let request = ReloadRequest(
                app: Installation.app, audience: .user("u\(user)"), kinds: .kinds(["RecentPurchases"]), reason: .push)
            return [
                OutgoingEvent(.viewed(app: Installation.app, widget: "w\(user)"), time: time, key: "u\(user)"),
                OutgoingEvent(.reload(request), time: time),
            ]
        }
    }

    @Test("A zombie applies nothing that its successor has applied, whenever it resumes")
    func zombie() async throws {
        try await withInstallation(isTakenOverSoon: true) { installation in
            let (first, _) = try await installation.run()
            try await installation.publish(
                (0..<Self.users).map { user in
                    OutgoingEvent(
                        .placed(
                            WidgetPlacement(
                                app: Installation.app, widget: "w\(user)", user: "u\(user)", device: "d\(user)",
                                kind: "RecentPurchases", family: .systemSmall,
                                environment: WidgetPlacement.test("w").environment)),
                        time: Self.start)
                })
            // Placements use another topic than pushes; a push applied first would find no timeline to mark.
            try await eventually("the widgets are placed") {
                try await installation.store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL")
                    == Self.users
            }
            var rounds = 0
            func publish(_ count: Int) async throws {
                for _ in 0..<count {
                    try await installation.publish(Self.round(rounds))
                    rounds += 1
                }
            }
            func appliesAll() async throws {
                let expected = rounds * Self.users
                try await eventually("the views of \(rounds) rounds are applied") {
                    try await installation.store.integer("SELECT coalesce(sum(views), 0)::int FROM timeline")
                        >= expected
                }
            }
            try await publish(3)
            try await appliesAll()
            // Within a flood of events the process holds batches, and perhaps an open transaction.
            try await publish(10)
            first.send(signal: SIGSTOP)
            try await publish(5)
            let (second, _) = try await installation.run()
            try await appliesAll()
            first.send(signal: SIGCONT)
            try await publish(5)
            try await appliesAll()
            // The roles are swapped: the first process is now the successor.
            try await publish(5)
            second.send(signal: SIGSTOP)
            try await publish(5)
            try await appliesAll()
            second.send(signal: SIGCONT)
            try await publish(3)
            try await appliesAll()
            #expect(first.isRunning && second.isRunning)

            let expected = rounds
            // Pushes use another topic than views.
            try await eventually("the pushes are applied") {
                try await installation.store.integer("SELECT coalesce(sum(requested), 0)::int FROM timeline")
                    >= (expected + 1) * Self.users
            }
            #expect(
                try await installation.store.integer("SELECT count(*) FROM timeline WHERE views <> \(expected)") == 0)
            #expect(
                try await installation.store.integer(
                    "SELECT count(*) FROM timeline WHERE requested <> \(expected + 1)") == 0)
            #expect(try await installation.store.integer("SELECT count(*) FROM dead_letter") == 0)
            try await eventually("every requested reload is rendered") {
                let overview = try await installation.store.pool.query(.overview())[0]
                return overview.stale == 0 && overview.leased == 0
            }
            for process in [first, second] {
                process.send(signal: SIGTERM)
                #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
            }
        }
    }
}
