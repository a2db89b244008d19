// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Registration of kinds", .timeLimit(.patience))
struct KindsTests {
    private func apply(_ apps: [AppDefinition], _ store: TestStore, secrets: [String: [UInt8]] = [:]) async throws
        -> [KindChange]
    {
        try await store.store.apply(apps, secrets: secrets) { [1, 2, 3] }
    }

    @Test("Applying a manifest again changes nothing, and a change lists its fields")
    func differences() async throws {
        try await withStore { store in
            var apps = TestKinds.apps()
            #expect(try await apply(apps, store).map(\.action) == [.keep, .keep, .keep, .keep])
            apps[0].kinds[0].maxBatch = 7
            apps[0].kinds[0].displayName = "Latest purchases"
            let changes = try await store.store.difference(apps)
            #expect(changes.first?.action == .change)
            #expect(changes.first?.fields == ["displayName", "maxBatch"])
            _ = try await apply(apps, store)
            let kinds = try await store.pool.query(.listKinds(app: TestKinds.app)).readable
            #expect(kinds.first { $0.definition.name == "Purchases" }?.definition.maxBatch == 7)
        }
    }

    @Test("A kind missing in the manifest stays registered and is reported; a new one is added")
    func unlisted() async throws {
        try await withStore { store in
            var apps = TestKinds.apps()
            apps[0].kinds.removeLast()
            apps[0].kinds.append(
                KindDefinition(name: "New", providerURL: "http://127.0.0.1:1", placeholder: .object(JSONObject())))
            let changes = try await apply(apps, store)
            let actions = Dictionary(changes.filter { $0.app == TestKinds.app }.map { ($0.kind, $0.action) }) { $1 }
            #expect(actions == ["Purchases": .keep, "DueDate": .keep, "New": .add, "Weather": .unlisted])
            let names = try await store.pool.query(.listKinds(app: TestKinds.app)).readable.map(\.definition.name)
            #expect(names == ["DueDate", "New", "Purchases", "Weather"])
        }
    }

    @Test("A newer version's definition is read without what this version does not know")
    func newerDefinition() async throws {
        try await withStore { store in
            try await store.overwrite(
                "DueDate",
                with: """
                    {"families":["systemSmall","systemGiant"],"glow":3,
                     "dailyBudget":{"minimum":2,"maximum":9,"weekly":40},
                     "intent":{"title":"City","parameters":[
                        {"name":"city","type":"string","hue":"red","size":{"systemSmall":2,"systemGiant":9}}]}}
                    """)
            let kinds = try await store.pool.query(.listKinds())
            #expect(kinds.count == 4 && kinds.unreadable.isEmpty)
            let definition = try #require(kinds.readable.first { $0.definition.name == "DueDate" }?.definition)
            #expect(definition.families == [.systemSmall])
            #expect(definition.dailyBudget == DailyBudget(minimum: 2, maximum: 9))
            #expect(definition.intent?.parameters.map(\.name) == ["city"])
        }
    }

    @Test(
        "A definition that cannot be read concerns its kind only, and a manifest of this version replaces it",
        arguments: [
            #"{"sharing":"perHousehold"}"#, #"{"variesBy":["family","mood"]}"#, #"{"families":["systemGiant"]}"#,
            #"{"intent":{"title":"City","parameters":[{"name":"city","type":"planet"}]}}"#,
        ])
    func unreadableDefinition(_ members: String) async throws {
        try await withStore { store in
            try await store.place([.test("w1", kind: "DueDate")])
            try await store.overwrite("DueDate", with: members)
            let kinds = try await store.pool.query(.listKinds())
            #expect(kinds.unreadable.map(\.name) == ["DueDate"] && kinds.readable.count == 3)
            let directory = try await store.directory()
            #expect(directory.kinds.count == 3 && directory.unreadable.values.map(\.name) == ["DueDate"])
            #expect(kinds.unreadable.allSatisfy { !$0.problem.isEmpty })
            // The widgets move, since the unreadable definition may have had another identity.
            let changes = try await apply(TestKinds.apps(), store)
            #expect(changes.filter { $0.action == .change }.map(\.kind) == ["DueDate"])
            #expect(try await store.pool.query(.listKinds()).unreadable.isEmpty)
            #expect(try await store.pool.query(.listMoves()).count == 1)
        }
    }

    @Test("A change of the identity returns the number of moves and records the move")
    func identity() async throws {
        try await withStore { store in
            try await store.place([.test("w1", kind: "DueDate"), .test("w2", user: "u2", kind: "DueDate")])
            let apps = try await store.changing("DueDate") { $0.variesBy = [.family] }
            let expected = try await store.store.difference(apps)
            #expect(expected.first { $0.kind == "DueDate" }?.moving == 2)
            #expect(expected.first { $0.kind == "DueDate" }?.fields == ["variesBy"])
            #expect(expected.filter { $0.kind != "DueDate" }.allSatisfy { $0.moving == nil })
            #expect(try await store.pool.query(.listMoves()).isEmpty, "a dry run records nothing")
            #expect(try await apply(apps, store) == expected)
            let moves = try await store.pool.query(.listMoves())
            #expect(moves.count == 1 && moves[0].pass == 1 && moves[0].movedInAll == 0)
            #expect(try await apply(apps, store).allSatisfy { $0.action != .change })
            #expect(try await store.pool.query(.listMoves()) == moves, "applying again does not restart the move")
        }
    }

    @Test("An app keeps its signing secret unless a new one is set")
    func secrets() async throws {
        try await withStore { store in
            func secret() async throws -> [UInt8]? {
                try await store.pool.query(Statements.listApps()).first { $0.name == TestKinds.app }?.signingSecret
            }
            let first = try await secret()
            _ = try await apply(TestKinds.apps(), store)
            #expect(try await secret() == first)
            _ = try await apply(TestKinds.apps(), store, secrets: [TestKinds.app: [9, 9]])
            #expect(try await secret() == [9, 9])
        }
    }
}
