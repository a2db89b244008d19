package import Tracing
package import WidgetModel

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
