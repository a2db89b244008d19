// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Trace contexts of events", .timeLimit(.patience))
struct TraceTests {
    private static func trace(_ number: Int, flags: String = "01") -> TraceParent? {
        let digits = String(number + 1, radix: 16)
        let span = String(repeating: "0", count: 16 - digits.count) + digits
        return TraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-\(span)-\(flags)")
    }

    private static func push(_ number: Int, app: String, trace: TraceParent?) -> BatchEvent {
        BatchEvent(
            record: number, position: .at(number), time: nil,
            event: .reload(ReloadRequest(app: app, audience: .user("u"), kinds: .all, reason: .push)), trace: trace)
    }

    @Test("Sampled trace contexts of accepted events are kept")
    func fold() {
        var fold = BatchFold(directory: .sample)
        fold.add(Self.push(0, app: SampleKind.appName, trace: Self.trace(0)))
        fold.add(Self.push(1, app: SampleKind.appName, trace: Self.trace(1, flags: "00")))
        fold.add(Self.push(2, app: SampleKind.appName, trace: nil))
        fold.add(Self.push(3, app: "com.example.unknown", trace: Self.trace(3)))
        #expect(fold.traces.map(\.position) == [.at(0)])
        #expect(fold.accepted == 3)
    }

    @Test("A transaction keeps its newest thousand trace contexts; old ones are deleted")
    func bounded() async throws {
        try await withStore { store in
            var fold = BatchFold(directory: try await store.directory())
            for number in 0..<1_200 {
                fold.add(Self.push(number, app: TestKinds.app, trace: Self.trace(number)))
            }
            let applier = BatchApplier(pool: store.pool, audienceLimit: 100)
            let outcome = try await applier.apply(fold, advancing: []) { rejected in
                DeadLetter(
                    topic: "test", partition: 0, offset: Int64(rejected.record), app: rejected.app,
                    code: rejected.code, error: rejected.message, key: nil, headers: [], payload: nil)
            }
            #expect(outcome.rejected.isEmpty)
            #expect(try await store.integer("SELECT count(*) FROM event_trace") == 1_000)
            #expect(try await store.integer("SELECT min(\"offset\") FROM event_trace") == 200)
            let retention = RowRetention(
                of: [.eventTraces(olderThan: .zero)], pool: store.pool, logger: IngestHarness.quiet)
            #expect(try await retention.prune() == 1_000)
        }
    }
}
