// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("Audit", .serialized, .tags(.database), .timeLimit(.patience))
struct AuditWalkerTests {
    private func configure(_ configuration: inout WorkerConfiguration) {
        configuration.auditChunk = 4
        configuration.auditSlack = .zero
        configuration.auditSpacing = .zero
        configuration.auditInterval = .zero
    }

    private func pass(_ worker: TestWorker) async throws {
        try await AuditWalker(context: worker.context).pass()
    }

    @Test("A pass visits all timelines in chunks, and finds nothing where all have appointments")
    func nothing() async throws {
        try await withWorker(configure: configure) { worker in
            try await worker.store.place((0..<10).map { .test("w\($0)", user: "u\($0)") })
            try await pass(worker)
            #expect(worker.metrics.auditAppointed.total() == 0)
            #expect(try await worker.store.integer("SELECT pass FROM audit WHERE cursor = 0") == 1)
        }
    }

    @Test("A timeline whose list is lost is appointed anew, counted and fetched")
    func lost() async throws {
        try await withWorker(configure: configure) { worker in
            let ids = try await worker.store.place((0..<7).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            for user in 0..<7 { try await worker.store.markUser("u\(user)") }
            try await worker.store.sql(
                """
                DELETE FROM work WHERE id = (SELECT min(id) FROM work);
                UPDATE timeline SET listed_at = 'infinity' WHERE id = (SELECT max(id) FROM timeline)
                """)
            let version = worker.context.signals.timelines.version
            try await pass(worker)
            #expect(worker.metrics.auditAppointed.total() == 2)
            #expect(worker.context.signals.timelines.version != version, "the claim loop is notified")
            try await worker.drain()
            for id in ids { #expect(try await !worker.store.detail(id).isStale) }
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A timeline that has been due for less than the slack is left alone")
    func slack() async throws {
        try await withWorker {
            configure(&$0)
            $0.auditSlack = .seconds(900)
        } _: { worker in
            try await worker.store.place([.test("w1")])
            try await worker.store.sql("DELETE FROM work")
            try await pass(worker)
            #expect(worker.metrics.auditAppointed.total() == 0)
            try await worker.store.passTime(1_000)
            try await pass(worker)
            #expect(worker.metrics.auditAppointed.total() == 1)
        }
    }

    @Test("A lost list is found among the overdue ones of a paused app, by one process of several")
    func paused() async throws {
        try await withWorker(configure: configure) { worker in
            try await worker.store.place((0..<20).map { .test("w\($0)", user: "u\($0)") })
            _ = try await worker.store.store.pause(app: TestKinds.app)
            try await worker.store.sql(
                "UPDATE work SET timelines = timelines[2:] WHERE id = (SELECT min(id) FROM work)")
            let other = worker.another()
            async let first: Void = pass(worker)
            async let second: Void = pass(other)
            _ = try await (first, second)
            #expect(worker.metrics.auditAppointed.total() + other.metrics.auditAppointed.total() == 1)
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A process does not audit while another one does, and continues where it stopped")
    func takenOver() async throws {
        try await withWorker(configure: configure) { worker in
            let store = worker.store
            try await store.place((0..<10).map { .test("w\($0)", user: "u\($0)") })
            try await store.sql("DELETE FROM work")
            // Stops after its first chunk, all of whose timelines are suspects.
            let stopping = worker.another { $0.auditSpacing = .seconds(100_000) }
            let stopped = Task { try await pass(stopping) }
            try await eventually("the first chunk is read") {
                try await store.integer("SELECT cursor FROM audit") > 0
            }
            let isBehind = "SELECT count(*) FROM audit WHERE cursor = (SELECT min(id) + 3 FROM timeline)"
            #expect(try await store.integer(isBehind) == 1)
            try await pass(worker)
            #expect(worker.metrics.auditAppointed.total() == 0)
            stopped.cancel()
            _ = await stopped.result
            try await store.sql("UPDATE audit SET lease_ends_at = now()")
            try await pass(worker)
            #expect(worker.metrics.auditAppointed.total() == 6, "those behind the cursor")
            try await pass(worker)
            #expect(worker.metrics.auditAppointed.total() == 10)
        }
    }

    @Test("A pass that one process has not done as a whole is followed by another one without a pause")
    func whole() async throws {
        try await withWorker {
            configure(&$0)
            $0.auditInterval = .seconds(600)
        } _: { worker in
            let store = worker.store
            try await store.place((0..<10).map { .test("w\($0)", user: "u\($0)") })
            try await store.sql(
                "UPDATE audit SET cursor = (SELECT min(id) FROM timeline), pass_begins_at = now() - interval '1 day'")
            try await pass(worker)
            let unfinished = try await store.pool.query(.auditProgress()).first?.unfinished
            #expect(unfinished.map { $0 >= .seconds(86_000) } == true)
            try await pass(worker)
            #expect(try await store.integer("SELECT pass FROM audit WHERE pass_begins_at > now()") == 2)
            #expect(try await store.pool.query(.auditProgress()).first?.unfinished == .zero)
        }
    }
}
