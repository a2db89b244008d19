import Tracing

/// The trace context of the task, as events carry it.
enum TraceContext {
    /// The W3C `traceparent` from the task's context and the bootstrapped instrument; nil without either.
    static func traceparent() -> String? {
        guard let context = ServiceContext.current else { return nil }
        var traceparent: String?
        InstrumentationSystem.instrument.inject(context, into: &traceparent, using: TraceparentInjector())
        return traceparent
    }

    private struct TraceparentInjector: Injector {
        /// Longest `traceparent`. Version 0 has 55 bytes; later versions may have more.
        private static var maximumBytes: Int { 256 }

        func inject(_ value: String, forKey key: String, into traceparent: inout String?) {
            guard key.lowercased() == "traceparent", value.utf8.count <= Self.maximumBytes else { return }
            traceparent = value
        }
    }
}
