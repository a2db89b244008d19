// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Synchronization
package import Tracing
package import WidgetModel
import WidgetStore

/// Key of the trace context in a service context.
private enum TraceParentKey: ServiceContextKey {
    typealias Value = TraceParent
    static let nameOverride: String? = "traceparent"
}

extension ServiceContext {
    /// Trace context of the present work.
    package var traceParent: TraceParent? {
        get { self[TraceParentKey.self] }
        set { self[TraceParentKey.self] = newValue }
    }
}

/// Propagates W3C trace contexts without spans of its own. A tracer with spans replaces it by being bootstrapped.
package struct TraceContextPropagator: Instrument {
    package static let header = "traceparent"

    package init() {}

    package func extract<Carrier, Extract>(
        _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
    ) where Extract: Extractor, Extract.Carrier == Carrier {
        guard let text = extractor.extract(key: Self.header, from: carrier), let parent = TraceParent(text) else {
            return
        }
        context.traceParent = parent
    }

    package func inject<Carrier, Inject>(
        _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
    ) where Inject: Injector, Inject.Carrier == Carrier {
        guard let parent = context.traceParent else { return }
        injector.inject(parent.description, forKey: Self.header, into: &carrier)
    }
}

/// Extractor and injector for headers by name.
struct TraceHeaders: Extractor, Injector {
    func extract(key: String, from carrier: [String: String]) -> String? { carrier[key] }

    func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) {
        carrier[key] = value
    }

    /// The service context for a `traceparent`.
    static func context(of traceparent: String) -> ServiceContext {
        var context = ServiceContext.topLevel
        // For logs, whatever the instrument extracts.
        context.traceParent = TraceParent(traceparent)
        InstrumentationSystem.instrument.extract(
            [TraceContextPropagator.header: traceparent], into: &context, using: TraceHeaders())
        return context
    }

    /// Headers for a request or message that belongs to the context.
    static func headers(of context: ServiceContext) -> [String: String] {
        var headers: [String: String] = [:]
        InstrumentationSystem.instrument.inject(context, into: &headers, using: TraceHeaders())
        return headers
    }
}

/// Finds the trace contexts of the events that cause reloads. Without stored contexts it costs a small query at
/// intervals. Errors are ignored, since traces are hints.
final class TraceLookup: Sendable {
    /// Validity of the knowledge that no contexts, or some, are stored.
    private static let absence = Duration.milliseconds(250)
    private static let presence = Duration.seconds(30)

    private let pool: PostgresPool
    private let known = Mutex<(exist: Bool, until: Duration)?>(nil)

    init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Trace contexts of the timelines' latest requests, by position.
    func traces(of jobs: [TimelineJob], at time: Duration) async -> [EventPosition: String] {
        guard jobs.contains(where: { $0.timeline.cause != nil }) else { return [:] }
        do throws(PostgresError) {
            guard try await anyExist(at: time) else { return [:] }
            let causes = Set(jobs.compactMap(\.timeline.cause))
            let rows = try await pool.query(.readEventTraces(Array(causes)))
            return Dictionary(rows.map { ($0.position, $0.traceparent) }, uniquingKeysWith: { first, _ in first })
        } catch {
            return [:]
        }
    }

    private func anyExist(at time: Duration) async throws(PostgresError) -> Bool {
        if let known = known.withLock({ $0 }), time < known.until { return known.exist }
        let exist = try await pool.query(Statements.eventTracesExist()).first ?? false
        known.withLock { $0 = (exist, time + (exist ? Self.presence : Self.absence)) }
        return exist
    }
}

extension TraceHeaders {
    static func headers(of timeline: ClaimedTimeline, in traces: [EventPosition: String]) -> [String: String] {
        guard !traces.isEmpty, let trace = timeline.cause.flatMap({ traces[$0] }) else { return [:] }
        return headers(of: context(of: trace))
    }
}
