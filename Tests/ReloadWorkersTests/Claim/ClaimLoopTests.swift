// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel

@testable import ReloadWorkers

@Suite("Claim loop", .serialized, .tags(.database), .timeLimit(.patience))
struct ClaimLoopTests {
    @Test("A look that leaves lists behind for want of room is followed by a rest")
    func rest() async throws {
        try await withWorker { first in
            // Two lists, of one timeline each.
            try await first.store.place([.test("w1")])
            try await first.store.place([.test("w2", configuration: #"{"n":2}"#)])
            let (sleeps, recorder) = AsyncStream.makeStream(of: Duration.self)
            let worker = first.another(clock: WorkerClock(HandClock { recorder.yield($0) })) {
                $0.maximumTimelinesInFlight = 1
            }
            var loop = ClaimLoop(context: worker.context, directory: worker.directory, pipeline: worker.pipeline)
            let looking = Task { try await loop.run { false } }
            var latest = sleeps.makeAsyncIterator()
            let rest = await latest.next()
            looking.cancel()
            _ = await looking.result
            #expect(rest == worker.context.configuration.claimSpacing)
            #expect(worker.metrics.claims.total() == 1)
        }
    }
}
