// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("Content that shows the same is neither stored nor published", .tags(.database), .timeLimit(.patience))
struct GateTests {
    /// An answer whose entries begin at the request.
    private static func answer(_ id: TimelineID, ago seconds: Int = 0, _ contents: [JSONValue]) -> JSONValue {
        let entries = contents.enumerated().map { index, content -> JSONValue in
            let date = Timestamp.now() + .seconds(index * 3_600 - seconds)
            return ["date": .string(date.rfc3339), "content": content]
        }
        return ["id": .string("\(id)"), "policy": "atEnd", "entries": .array(entries)]
    }

    @Test(
        "A provider that dates its entries by the request changes nothing while their content stays",
        arguments: [1, 5])
    func datedByTheRequest(entries: Int) async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            @Sendable func contents(_ text: String) -> [JSONValue] {
                Array(repeating: ["text": .string(text)], count: entries)
            }
            worker.provider.respond { request in
                .timelines(request.ids.map { Self.answer($0, ago: 7_200, contents("same")) })
            }
            #expect(try await worker.turn() == 1)
            let first = try await worker.store.detail(id)
            let row = "SELECT (extract(epoch FROM stored_at) * 1000000)::int8 FROM timeline"
            let storedAt = try await worker.store.integer("\(row)")
            for _ in 0..<2 {
                try await worker.store.passTime(7_200)
                try await worker.store.markUser("u1")
                worker.provider.respond { request in
                    .timelines(request.ids.map { Self.answer($0, contents("same")) })
                }
                #expect(try await worker.turn() == 1)
            }
            let second = try await worker.store.detail(id)
            #expect(!second.isStale && second.decision == .unchanged)
            #expect(try await worker.store.rule(of: id) == .gate)
            #expect(second.revision == first.revision && second.content == first.content)
            #expect(try await worker.store.integer("\(row)") == storedAt)
            #expect(worker.publisher.messages(of: id).count == 1)
            #expect(worker.metrics.stored.total() == 1 && worker.metrics.gateTimelines.total() == 2)
        }
    }

    @Test("A change of content is published, also from a provider that dates its entries by the request")
    func datedChange() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            @Sendable func contents(_ text: String) -> [JSONValue] { [["text": .string(text)]] }
            worker.provider.respond { request in
                .timelines(request.ids.map { Self.answer($0, ago: 7_200, contents("same")) })
            }
            #expect(try await worker.turn() == 1)
            try await worker.store.passTime(7_200)
            try await worker.store.markUser("u1")
            worker.provider.respond { request in .timelines(request.ids.map { Self.answer($0, contents("new")) }) }
            #expect(try await worker.turn() == 1)
            #expect(worker.publisher.messages(of: id).count == 2)
        }
    }

    @Test("A volatile member of every element of a list is no change")
    func everyElement() async throws {
        try await withWorker { worker in
            try await worker.store.redefine { $0.volatileFields = ["/accounts/*/at"] }
            let id = try await worker.store.place([.test("w1")])[0]
            for (at, balance) in [(1, 10), (2, 10), (3, 11)] {
                let accounts: [JSONValue] = (0..<3).map { ["at": .count(at + $0), "balance": .count(balance)] }
                worker.provider.respond { request in
                    .timelines(request.ids.map { Self.answer($0, [["accounts": .array(accounts)]]) })
                }
                try await worker.store.markUser("u1")
                #expect(try await worker.turn() == 1)
            }
            #expect(worker.metrics.stored.total() == 2 && worker.metrics.gateTimelines.total() == 1)
            #expect(worker.publisher.messages(of: id).count == 2)
        }
    }
}
