import Tracing

/// The trace context of the task, as events carry it.
enum TraceContext {
    /// The W3C `traceparent` from the task's context and the bootstrapped instrument; nil without either.
    static func traceparent() -> String? {
        guard let context = ServiceContext.current else { return nil }
        var carrier = Carrier()
        InstrumentationSystem.instrument.inject(context, into: &carrier, using: CarrierInjector())
        return carrier.traceparent
    }

    private struct Carrier: Sendable {
        var traceparent: String?
    }

    private struct CarrierInjector: Injector {
        /// Longest `traceparent`. Version 0 has 55 bytes; later versions may have more.
        private static var maximumBytes: Int { 256 }

        func inject(_ value: String, forKey key: String, into carrier: inout Carrier) {
            guard key.lowercased() == "traceparent", value.utf8.count <= Self.maximumBytes else { return }
            carrier.traceparent = value
        }
    }
}
