// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import JSON
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("Providers behind a proxy that ends connections after some requests", .tags(.database), .timeLimit(.patience))
struct EndingConnectionTests {
    /// Passes the closure a worker whose provider ends each connection after a number of requests.
    private func withEndingProvider(
        requestsPerConnection: Int, _ body: (TestWorker, GoAwayServer) async throws -> Void
    ) async throws {
        try await withGoAwayServer(requestsPerConnection: requestsPerConnection) { body in
            guard let request = try? StubProvider.Request(body: body, headers: [:]) else { return [] }
            return JSONValue.object(["timelines": .array(request.ids.map { .stubTimeline($0) })]).encoded
        } _: { server in
            try await withWorker(maxBatch: 1) { worker in
                try await worker.store.redefine { $0.providerURL = server.url + "/widgets" }
                let egress = EgressGuard(try EgressPolicy(allowing: ["127.0.0.1", "localhost", "::1"]))
                let http = HTTPClient(
                    eventLoopGroupProvider: .singleton,
                    configuration: ProviderClient.configuration(egress: egress, limits: try .trustingTests()))
                let result: Result<Void, any Error>
                do {
                    result = .success(
                        try await body(worker.another(fetcher: ProviderClient(http: http, egress: egress)), server))
                } catch {
                    result = .failure(error)
                }
                try await http.shutdown()
                try result.get()
            }
        }
    }

    @Test(
        "A request that was not taken is sent again, and is no failure: no retry, no smaller limit, no breaker",
        arguments: [5, 20])
    func notTaken(requestsPerConnection: Int) async throws {
        try await withEndingProvider(requestsPerConnection: requestsPerConnection) { worker, server in
            let ids = try await worker.store.place((0..<60).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            #expect(server.refused.count > 0, "the proxy ended connections with requests under way")
            // A connection may end before an answer arrives; the request is then sent again, too.
            #expect(server.answered.count >= 60)
            let metrics = worker.metrics
            #expect(metrics.completed == 60 && metrics.failures.isEmpty)
            #expect(metrics.limitsShrunk.total() == 0 && metrics.breakersOpened.total() == 0)
            for id in ids { #expect(try await worker.store.detail(id).attempts == 0) }
        }
    }

    @Test("A provider that takes no request at all fails")
    func neverTaken() async throws {
        try await withEndingProvider(requestsPerConnection: 0) { worker, server in
            try await worker.store.place([.test("w1")])
            try await worker.turn()
            #expect(worker.metrics.failures == [.connection: 1])
            #expect((2...40).contains(server.refused.count), "the attempts are bounded")
        }
    }
}
