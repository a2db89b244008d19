// SPDX-License-Identifier: Apache-2.0

import Foundation
import PostgresClient
import ReloadIngest
import ReloadWorkers
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService
@testable import WidgetStore
@testable import freshet

@Suite("Doctor's checks of what waits or stays", .timeLimit(.patience))
struct DoctorBacklogTests {
    private typealias Checking = @Sendable (Doctor, PostgresPool) async throws -> [Finding]

    private func findings(_ store: TestStore, app: String? = nil, _ check: @escaping Checking) async -> [Finding] {
        let doctor = Doctor(settings: Settings(), warnings: [], timeLimit: .seconds(300), app: app)
        return await Doctor.findings(of: "check") { [pool = store.pool] in try await check(doctor, pool) }
    }

    private func sweeps(_ store: TestStore, app: String? = nil) async -> [Finding] {
        await findings(store, app: app) { try await $0.checkSweeps($1) }
    }

    private func reload(_ kind: RegisteredKind, _ matching: String?) -> EveryoneReload {
        var reload = EveryoneReload(appID: kind.appID, kindID: kind.id)
        reload.matching = matching
        return reload
    }

    private let age = "UPDATE sweep SET created_at = now() - interval '2 hours'"

    /// Records two sweeps of a kind.
    private func withSweeps(_ body: (TestStore, RegisteredKind) async throws -> Void) async throws {
        try await withStore { store in
            let directory = try await store.directory()
            let app = try #require(directory.apps[TestKinds.app])
            let kind = try #require(directory.kind("Purchases", of: app))
            let sweeps = [#"{"a":"1"}"#, #"{"a":"2"}"#].map { reload(kind, $0) }
            _ = try await store.pool.execute(.recordSweep(sweeps))
            try await body(store, kind)
        }
    }

    @Test("Sweeps that have not gone on for ten minutes are reported with app, kind, number, time and reason")
    func sweeps() async throws {
        try await withSweeps { store, _ in
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            #expect(await sweeps(store).map(\.severity) == [.ok], "for less than ten minutes")
            try await store.sql(age)
            let paused = try #require(await sweeps(store).first)
            #expect(paused.severity == .warning && paused.message.contains("the kind is paused"))
            for part in ["2 reloads", "Purchases", TestKinds.app, "2 h"] {
                #expect(paused.message.contains(part), "\(paused)")
            }
            #expect(paused.advice?.contains("freshet resume --app \(TestKinds.app) --kind Purchases") == true)
            #expect(await sweeps(store, app: TestKinds.otherApp).map(\.severity) == [.ok])
            #expect(await sweeps(store, app: TestKinds.app).count == 1)
        }
    }

    @Test("Waiting sweeps are reported with a paused app, failures, or without a reason")
    func reasons() async throws {
        try await withSweeps { store, _ in
            try await store.sql(age)
            _ = try await store.store.pause(app: TestKinds.app)
            #expect(await sweeps(store).first?.message.contains("the app is paused") == true)
            _ = try await store.store.resume(app: TestKinds.app)
            #expect(await sweeps(store).first?.message.contains("nothing holds them up now") == true)
            try await store.sql("UPDATE sweep SET failed_at = now()")
            #expect(await sweeps(store).first?.message.contains("chunks fail") == true)
        }
    }

    @Test("Sweeps without room are reported; one that goes on does not wait")
    func withoutRoom() async throws {
        try await withSweeps { store, kind in
            try await store.sql(age)
            // The lists of another reload of everyone leave no room to it, and later ones no room to those with a
            // match.
            let lists = WorkerConfiguration().maximumBulkLists
            func fill(_ generation: String) async throws {
                try await store.sql(
                    """
                    INSERT INTO work (kind_id, lane, due_at, ready_at, generation, timelines)
                    SELECT \(kind.id), 3, now(), now(), \(generation), '{1}' FROM generate_series(1, \(lists))
                    """)
            }
            try await fill("NULL")
            let full = await sweeps(store)
            #expect(full.count == 1 && full.first?.message.contains("wait to be fetched") == true, "\(full)")
            _ = try await store.pool.query(.bumpKinds([reload(kind, nil)]))
            try await store.sql(age)
            #expect(await sweeps(store).count { $0.message.contains("wait to be fetched") } == 1)
            try await fill("1")
            #expect(await sweeps(store).count { $0.message.contains("wait to be fetched") } == 2)
            // A long sweep that goes on is none that waits.
            try await store.sql("UPDATE sweep SET ran_at = now()")
            #expect(await sweeps(store).map(\.severity) == [.ok])
        }
    }

    @Test("Rows that are kept for long beyond their age are reported until retention deletes them")
    func retention() async throws {
        try await withStore { store in
            func found() async -> [Finding] { await findings(store) { try await $0.checkRetention($1) } }
            func insert(hours: Int) async throws {
                let time = "now() - interval '\(hours) hours'"
                try await store.sql(
                    """
                    INSERT INTO event_outcome (app_id, event_id, source, type, topic, partition, "offset", result, recorded_at)
                    VALUES (1, 'e\(hours)', '/s', 't', 't', 1, 1, 'applied', \(time));
                    INSERT INTO idempotency_key (app_id, key, request, recorded_at)
                    VALUES (1, gen_random_uuid(), gen_random_uuid(), \(time));
                    INSERT INTO unplaced_widget (app_id, id, recorded_at) VALUES (1, 'w\(hours)', \(time));
                    INSERT INTO event_trace (topic, partition, "offset", traceparent, received_at)
                    VALUES (1, 1, \(hours), '', \(time));
                    INSERT INTO dead_letter (topic, partition, "offset", app, code, error, header_names, header_values,
                        discarded_at) VALUES ('t', 1, \(hours), 'a', 'c', 'e', '{}', '{}', \(time));
                    INSERT INTO widget (app_id, id, kind_id, family, user_id, device_id, locale, time_zone, placed_at,
                        changed_at) VALUES (1, 'w\(hours)', 1, 0, 'u', 'd', '', '', \(time), \(time))
                    """)
            }
            #expect(await found().map(\.severity) == [.ok], "without rows")
            try await insert(hours: 24 * 90)
            try await insert(hours: 1)
            let old = await found()
            #expect(old.count == 6)
            #expect(old.allSatisfy { $0.severity == .warning && $0.message.contains("90 d") }, "\(old)")

            // Retention goes on with the other rows when it fails for some.
            try await store.sql(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
                CREATE TRIGGER refuse BEFORE DELETE ON event_outcome EXECUTE FUNCTION refuse()
                """)
            let settings = Settings()
            let service = RowRetention(
                of: RowRetention.Rows.ofIngest(
                    deadLetters: settings.ingest.retention, topics: settings.topics.retention),
                pool: store.pool, logger: quietLogger)
            let running = Task { try await service.run() }
            defer { running.cancel() }
            try await eventually("the other rows are deleted") { await found().count { $0.severity == .warning } == 1 }
            let left = try #require(await found().first)
            #expect(left.message.contains("outcomes") && left.advice?.contains("cannot delete old outcomes") == true)
        }
    }

    @Test("A failover that no process has noticed is reported, and how many were")
    func history() async throws {
        try await withStore { store in
            func found() async -> Finding? { await findings(store) { try await $0.checkHistory($1) }.first }
            #expect(await found()?.severity == .ok)
            try await store.failOver()
            var noticed: Finding?
            try await eventually("the pool has connected again") {
                noticed = await found()
                return noticed?.check == "history"
            }
            #expect(noticed?.severity == .warning && noticed?.message.contains("no worker") == true)
            #expect(await found()?.severity == .warning, "doctor changes nothing")
            _ = try await store.pool.query(.checkTokenOrigin())
            let known = await found()
            #expect(known?.severity == .ok && known?.message.contains("until now: 1") == true)
        }
    }

    @Test("Timelines and widgets of a family that only a newer version knows are a problem of their kind")
    func families() async throws {
        try await withStore { store in
            func found(_ app: String? = nil) async -> [Finding] {
                await findings(store, app: app) { try await $0.checkKinds($1) }
            }
            try await store.place((0..<3).map { .test("w\($0)", user: "u\($0)") })
            #expect(await found().map(\.severity) == [.ok])
            try await store.sql(
                """
                UPDATE timeline SET family = 77 WHERE user_id <> 'u0'; UPDATE widget SET family = 77 WHERE user_id = 'u1'
                """)
            let problem = try #require(await found().first)
            #expect(problem.severity == .problem)
            let counts = "2 timelines and 1 widgets of Purchases of \(TestKinds.app)"
            #expect(problem.message.contains(counts), "\(problem)")
            #expect(problem.advice?.contains("FreshetTimelinesUnreadable") == true)
            #expect(await found(TestKinds.otherApp).map(\.severity) == [.ok])
        }
    }

    @Test("Advice refers to headings of the runbook")
    func headings() throws {
        let runbook = try String(contentsOfFile: try #require(Repository.path("deploy/runbook.md")), encoding: .utf8)
        let headings = Set(runbook.split(separator: "\n").filter { $0.hasPrefix("## ") }.map { $0.dropFirst(3) })
        for heading in RunbookHeading.allCases { #expect(headings.contains(heading.rawValue[...]), "\(heading)") }
    }
}
