// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import TestSupport
import Testing
import Tracing
import WidgetEvents

/// An instrument that propagates the context under the W3C names, like that of OpenTelemetry.
private struct TestInstrument: Instrument {
    struct Parent: ServiceContextKey {
        typealias Value = String
    }

    /// A process may have only one instrument, and only this file needs one.
    static let bootstrapped: Void = InstrumentationSystem.bootstrap(TestInstrument())

    func inject<Carrier, Inject: Injector>(
        _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
    ) where Inject.Carrier == Carrier {
        guard let parent = context[Parent.self] else { return }
        injector.inject(parent, forKey: "Traceparent", into: &carrier)
        injector.inject("vendor=1", forKey: "tracestate", into: &carrier)
    }

    func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
    ) where Extract.Carrier == Carrier {}
}

@Suite(.timeLimit(.patience))
struct TraceTests {
    @Test("An event carries the task's trace in the W3C header")
    func traceparent() async throws {
        TestInstrument.bootstrapped
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let received = try await published(count: 4) { center in
            var context = ServiceContext.topLevel
            context[TestInstrument.Parent.self] = parent
            try await ServiceContext.withValue(context) {
                _ = try await center.reloadAllTimelines()
                _ = try await center.publish([.reloadAllTimelines(for: .user("u"))])
            }
            try await center.reloadAllTimelines()
            context[TestInstrument.Parent.self] = String(repeating: "x", count: 300)
            try await ServiceContext.withValue(context) {
                _ = try await center.reloadAllTimelines()
            }
        }
        #expect(received.map { $0.headers["traceparent"] } == [parent, parent, nil, nil])
        #expect(received.map(\.event.traceparent) == [parent, parent, nil, nil])
        #expect(received.allSatisfy { $0.headers["tracestate"] == nil })
    }
}
