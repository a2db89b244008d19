// SPDX-License-Identifier: Apache-2.0

import ServiceLifecycle
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// A provider that hangs, trickles or sends without end, next to a healthy one, in a worker process with more work for
/// the failing provider than it has slots.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct HostileNeighbourTests {
    enum Sickness: CaseIterable, Sendable {
        case hangs, dribbles, pours

        var behaviour: RawServer.Behaviour {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1073741824\r\n\r\n"
            return switch self {
            case .hangs: .hangs
            case .dribbles: .dribbles(head.replacing("1073741824", with: "60000"), every: .seconds(1))
            // No content length, which alone would suffice to refuse the answer.
            case .pours:
                .pours(
                    head.replacing("content-length: 1073741824\r\n", with: ""),
                    piece: String(repeating: " ", count: 65_536))
            }
        }
    }

    /// All kinds of the other app use the failing provider.
    private func infect(_ worker: TestWorker, port: Int) async throws {
        try await worker.store.sql(
            """
            UPDATE kind_definition d
            SET definition = jsonb_set(definition, '{providerURL}', '"http://127.0.0.1:\(port)/sick"')
            FROM kind k JOIN app a ON a.id = k.app_id WHERE k.id = d.kind_id AND a.name = '\(TestKinds.otherApp)'
            """)
    }

    @Test(arguments: Sickness.allCases)
    func itCostsOnlyItsOwnShare(sickness: Sickness) async throws {
        try await withRawServer(sickness.behaviour) { sick, port in
            try await withWorker(maxBatch: 1, minimumSpacing: .zero, timeout: .seconds(120)) {
                $0.concurrency = 8
                $0.providerConcurrency = 4
                $0.maximumResponseBytes = 1 << 20
                $0.pollInterval = .milliseconds(50)
                $0.graceTime = .zero
            } _: { worker in
                try await infect(worker, port: port)
                try await worker.store.place(
                    (0..<50).map { .test("s\($0)", app: TestKinds.otherApp, user: "s\($0)") })
                let well = try await worker.store.place((0..<5).map { .test("w\($0)", user: "u\($0)") })
                let service = TestService(beside: worker)
                try await serving([service]) {
                    try await sick.asked.reaches(1)
                    for round in 1...5 {
                        for user in 0..<5 { try await worker.store.markUser("u\(user)") }
                        // The failing provider's slots are released after two minutes, the longest timeout of a kind.
                        try await eventually("round \(round) of the healthy provider") {
                            for id in well where try await worker.store.detail(id).isStale { return false }
                            return true
                        }
                    }
                }
                #expect(worker.provider.requests.count >= 5 * 5)
                switch sickness {
                case .hangs, .dribbles:
                    #expect(service.metrics.failures.isEmpty, "the failing provider still holds its slots")
                    // Four slots, each with a snapshot and a timeline.
                    #expect(sick.asked.count <= 8)
                case .pours:
                    #expect(Array(service.metrics.failures.keys) == [.tooLarge])
                    #expect(service.metrics.breakersOpened.total() >= 1)
                    // Only the bytes in the sockets' buffers.
                    #expect(sick.asked.count <= 30 && sick.sent < 384 << 20)
                }
            }
        }
    }
}
