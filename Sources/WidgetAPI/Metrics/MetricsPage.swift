/// The page at `/metrics`, in Prometheus' text format.
package struct MetricsPage: Sendable {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private let write: @Sendable () -> String

    /// - Parameter write: called at each request; must be quick and do no I/O.
    package init(_ write: @escaping @Sendable () -> String = { "" }) {
        self.write = write
    }

    /// The page of a registry.
    ///
    /// - Parameter prepare: updates values that are counted elsewhere.
    package init(_ registry: PrometheusRegistry, prepare: @escaping @Sendable () -> Void = {}) {
        self.init {
            prepare()
            return registry.text
        }
    }

    package var text: String { write() }
}
