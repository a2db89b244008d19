// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import JSON
import PostgresClient
import Synchronization
import TestSupport
import Testing
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Workers and the sweeper with a failing database, and with a wrong host clock.
@Suite(.tags(.database), .timeLimit(.patience))
struct WorkerDatabaseTroubleTests {
    private func content(_ text: String, on worker: TestWorker) {
        worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: .string(text)) }) }
    }

    private func quickly(_ configuration: inout WorkerConfiguration) {
        configuration.databaseBackoff = Backoff(base: .milliseconds(1), cap: .milliseconds(5))
    }

    private func smallSweeps(_ configuration: inout WorkerConfiguration) {
        quickly(&configuration)
        configuration.sweepChunk = 64
        // Each later look for sweeps makes the chunks larger again.
        configuration.pollInterval = .seconds(3_600)
    }

    private func mark(_ count: Int, _ worker: TestWorker) async throws {
        for user in 0..<count { try await worker.store.markUser("u\(user)") }
    }

    @Test(
        "Content too large for one statement is stored in parts, with one call to the provider",
        arguments: ["57014", "53200", "53400"])
    func halving(state: String) async throws {
        try await withWorker(configure: quickly) { worker in
            let ids = try await worker.store.place((0..<16).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            let calls = worker.provider.requestedIDs.count
            content("new.", on: worker)
            try await mark(16, worker)
            // The claim is a separate statement, which succeeds.
            _ = try await worker.claim()
            try await worker.store.fail(writesTo: "timeline", with: state, above: 3)
            try await worker.finish()
            try await worker.store.healFaults()
            try await worker.expectPublishedIsStored(ids, content: "new.", state)
            #expect(worker.provider.requestedIDs.count == calls + 16, "each timeline is fetched once")
            #expect(worker.context.claimSize.share(of: 1000) < 1000, "claims become smaller")
            let size = worker.context.claimSize.share(of: 1000)
            try await mark(16, worker)
            try await worker.turn()
            #expect(worker.context.claimSize.share(of: 1000) > size, "claims grow again")
        }
    }

    @Test(
        "Transient errors cost no reload: a full disk, no connections, a deadlock, an I/O error",
        arguments: ["53100", "53300", "40P01", "40001", "58030", "55P03", "25006"])
    func passing(state: String) async throws {
        try await withWorker(configure: quickly) { worker in
            let ids = try await worker.store.place((0..<4).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            content("new.", on: worker)
            try await mark(4, worker)
            _ = try await worker.claim()
            try await worker.store.fail(writesTo: "timeline", with: state)
            try await worker.finish()
            #expect(worker.metrics.databaseErrors.total() > 0)
            for id in ids {
                #expect(try await !worker.store.detail(id).text.contains("new."), "the last good content stays")
            }
            try await worker.store.healFaults()
            // Lists that could not be returned are claimed again after their leases.
            try await worker.store.passTime(1_000)
            try await worker.drain()
            try await worker.expectPublishedIsStored(ids, content: "new.", state)
        }
    }

    @Test("A sweep whose statement takes too long continues in smaller chunks")
    func sweep() async throws {
        try await withWorker(configure: smallSweeps) { worker in
            let ids = try await worker.store.place((0..<64).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            try await worker.store.fail(writesTo: "timeline", with: "57014", above: 10)
            try await worker.store.apply(
                [
                    .reload(
                        ReloadRequest(
                            app: TestKinds.app, audience: .everyone, kinds: KindScope(names: ["Purchases"]) ?? .all,
                            matching: WidgetConfiguration(storedCanonical: "{}"), reason: .foreground))
                ], at: Timestamp(microseconds: 1))
            let sweeping = Task { try await worker.sweeper.run() }
            try await eventually("all timelines are marked") {
                try await worker.store.integer("SELECT count(*) FROM timeline WHERE requested = 2") == ids.count
            }
            sweeping.cancel()
            _ = await sweeping.result
            #expect(worker.metrics.databaseErrors.total() >= 3, "64, 32 and 16 rows were too many")
            #expect(worker.context.sweepSize.share(of: 64) < 64)
        }
    }

    /// Only the database's clock decides on due times and leases; a worker's clock appears only in signatures and logs.
    @Test(
        "A worker whose clock is hours off, or jumps during a fetch, renders normally",
        arguments: [-86_400, 86_400, 315_360_000])
    func clockJump(seconds: Int64) async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place((0..<6).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            let http = HTTPClient(
                eventLoopGroupProvider: .singleton,
                configuration: ProviderClient.configuration(
                    egress: EgressGuard(try EgressPolicy(allowing: ["127.0.0.0/8"])), limits: .patient))
            defer { http.shutdown { _ in } }
            let jump = Mutex<Int64>(0)
            let asked = Mutex(0)
            let astray = worker.another(
                fetcher: ProviderClient(
                    http: http, egress: EgressGuard(try EgressPolicy(allowing: ["127.0.0.0/8"])),
                    now: {
                        asked.withLock { $0 += 1 }
                        let offset = jump.withLock { $0 }
                        return Timestamp(microseconds: Timestamp.now().microseconds + offset * 1_000_000)
                    }))
            for round in 0..<3 {
                content("round-\(round).", on: worker)
                try await mark(6, worker)
                jump.withLock { $0 = round == 1 ? 0 : seconds }
                try await astray.turn()
                try await worker.expectPublishedIsStored(ids, content: "round-\(round).", "\(seconds) s")
            }
            #expect(asked.withLock { $0 } >= 3, "signatures read the worker's clock")
            // The worker wrote no time that lies in the past or the future.
            #expect(
                try await worker.store.integer(
                    """
                    SELECT count(*) FROM timeline
                    WHERE abs(extract(epoch FROM now() - stored_at)) > 60
                       OR (isfinite(listed_at) AND abs(extract(epoch FROM listed_at) - extract(epoch FROM now())) > 172800)
                    """) == 0)
        }
    }
}
