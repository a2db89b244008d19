import Tracing

/// The trace that the task belongs to, as an event carries it.
enum TraceContext {
    /// The W3C `traceparent` that the bootstrapped instrument makes of the task's context; nil without either.
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
        /// A `traceparent` is 55 bytes long, and later versions of it may be longer; more is no such thing.
        private static var maximumBytes: Int { 256 }

        func inject(_ value: String, forKey key: String, into carrier: inout Carrier) {
            guard key.lowercased() == "traceparent", value.utf8.count <= Self.maximumBytes else { return }
            carrier.traceparent = value
        }
    }
}
