// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

/// Version 1 only grows: compares the documents with the committed `schemas/v1.lock.json`.
///
/// `FRESHET_UPDATE_CONTRACT=1 deploy/local/test --filter ContractTests` rewrites the file after an addition, and
/// refuses any other change.
@Suite(.tags(.schemas), .timeLimit(.patience))
struct ContractTests {
    private static let file = ContractFiles.folder.appending(path: "v1.lock.json")

    @Test("The documents contain the locked contract")
    func lock() throws {
        let current = try Contract.current()
        let updates = ProcessInfo.processInfo.environment["FRESHET_UPDATE_CONTRACT"] == "1"
        if updates, !FileManager.default.fileExists(atPath: Self.file.path) {
            try Data((current.lock.wrapped() + "\n").utf8).write(to: Self.file)
        }
        let locked = try Contract(lock: JSONValue.parse([UInt8](Data(contentsOf: Self.file))))
        let breaches = locked.breaches(by: current)
        #expect(breaches == [], "version 1 only grows; what breaks it needs a new type or version")
        if updates, breaches.isEmpty {
            try Data((current.lock.wrapped() + "\n").utf8).write(to: Self.file)
            return
        }
        // The HTTP API is locked when the file contains it.
        let names = ContractRule.Direction.allCases.flatMap { locked[$0].keys }
        let isLocked = { (name: String) in
            !name.hasPrefix(Contract.interface) || names.contains { $0.hasPrefix(Contract.interface) }
        }
        #expect(
            breaches != [] || locked.lock == current.only(isLocked).lock,
            "the contract has grown: FRESHET_UPDATE_CONTRACT=1 deploy/local/test --filter ContractTests")
    }

    @Test("The contract covers all input and output")
    func completeness() throws {
        let contract = try Contract.current()
        for type in EventType.allCases {
            #expect(contract[.reads]["\(type.topic.defaultName) \(type.rawValue) data"] != nil)
        }
        for name in [TimelineUpdatedEvent.type, EncodedEvent.timelineRemoved] {
            #expect(contract[.writes]["freshet.timelines \(name) headers"] != nil)
        }
        for endpoint in ProviderEndpoint.allCases {
            #expect(contract[.writes]["POST \(endpoint.path) request"] != nil)
            #expect(contract[.reads]["POST \(endpoint.path) answer"] != nil)
        }
    }

    @Test("A breaking change of version 1 is detected, and an addition is allowed", arguments: ContractChange.all)
    func change(change: ContractChange) throws {
        let contract = try Contract.current()
        var changed = contract
        let schema = try #require(contract[change.direction][change.part])
        let replaced = try change.applied(to: schema)
        #expect(replaced != schema)
        changed.parts[change.direction]?[change.part] = replaced
        let breaches = contract.breaches(by: changed)
        if let expected = change.breach {
            #expect(breaches.contains { $0.contains(expected) }, "\(breaches)")
            #expect(breaches.allSatisfy { $0.hasPrefix(change.part) })
        } else {
            #expect(breaches == [])
        }
    }

    @Test("A removed message, endpoint or header is detected", arguments: ContractRule.Direction.allCases)
    func parts(direction: ContractRule.Direction) throws {
        let contract = try Contract.current()
        #expect(contract[direction].count > 5)
        for name in contract[direction].keys.sorted().prefix(30) {
            var changed = contract
            changed.parts[direction]?[name] = nil
            #expect(contract.breaches(by: changed) == ["\(name): is gone"])
        }
        #expect(contract.breaches(by: contract) == [])
        #expect(try Contract(lock: contract.lock).lock == contract.lock)
    }
}
