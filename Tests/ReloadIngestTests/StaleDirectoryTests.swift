// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("A kind registered before its event was sent is known", .timeLimit(.patience))
struct StaleDirectoryTests {
    @Test("Events of unregistered apps and kinds do not cause the kinds to be read again")
    func unknownNames() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let service = ingest.service(configure: { $0.directoryAge = .seconds(3_600) })
            try await ingest.running([service]) {
                try await ingest.publish([ingest.everyone(TestKinds.app)])
                try await ingest.waitUntilApplied(1)
                // Reading the kinds fails from here on.
                try await ingest.store.sql("ALTER TABLE kind_definition RENAME TO hidden")
                try await ingest.publish([ingest.everyone("com.example.unknown"), ingest.bad()])
                try await ingest.publish([ingest.everyone(TestKinds.app)])
                try await ingest.waitUntilApplied(4)
            }
            #expect(try await ingest.letters("cause IN ('unknownApp', 'unknownKind')") == 2)
            #expect(try await ingest.generation(of: TestKinds.app) == 2)
        }
    }

    @Test("A fresh directory is read even if only a later transaction of the batch has an event of the app")
    func laterTransaction() async throws {
        try await IngestHarness.lend(partitions: 1, maximumBatch: 1_000) { ingest in
            let people = 500
            _ = try await ingest.store.place((0..<people).map { .test("w\($0)", user: "u\($0)") })
            let service = ingest.service(configure: { configuration in
                configuration.maximumMarks = 50
                configuration.directoryAge = .seconds(3_600)
            })
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("u0")])
                try await ingest.waitUntilApplied(1)
                // From here on the service has cached the old kinds.
                var apps = TestKinds.apps()
                var added = apps[0].kinds[0]
                added.name = "Added"
                apps[0].kinds.append(added)
                try await ingest.store.apply(apps)
                try await ingest.publish(
                    (0..<people).map { ingest.push("u\($0)") } + [ingest.push("u0", kinds: ["Added"])])
                try await ingest.waitUntilApplied(people + 2)
            }
            #expect(service.metrics.ingestEvents.total(["outcome": "applied"]) == people + 2)
            #expect(service.metrics.ingestDeadLetters.total() == 0)
        }
    }
}
