// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Synchronization
import TestSupport
import Testing

@testable import ReloadIngest

@Suite("Events gather between two batches", .timeLimit(.patience))
struct SpacingTests {
    @Test("A batch begins at least the spacing after the one before it, a longer one beside busy workers")
    func spacing() async throws {
        for areBusy in [false, true] {
            let (spacing, other) = (Duration.seconds(1), Duration.zero)
            try await IngestHarness.lend(partitions: 1) { ingest in
                let service = ingest.service(
                    configure: {
                        $0.spacing = areBusy ? other : spacing
                        $0.busySpacing = areBusy ? spacing : other
                    }, workers: RecordingWorkers(areBusy: areBusy))
                try await ingest.running([service]) {
                    // The first batch begins later.
                    var begun = ContinuousClock.now
                    try await ingest.publish([ingest.push("u1")])
                    try await eventually("the first event is polled") {
                        let now = ContinuousClock.now
                        if service.current.withLock({ $0 })?.counters.messages == 1 { return true }
                        begun = now
                        return false
                    }
                    try await ingest.publish([ingest.push("u1")])
                    try await ingest.waitUntilApplied(2)
                    #expect(begun.duration(to: .now) >= spacing)
                }
            }
        }
    }
}
