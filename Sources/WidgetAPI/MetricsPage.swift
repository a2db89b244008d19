/// What `/metrics` answers: numbers of this process, in Prometheus' text format.
package struct MetricsPage: Sendable {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private let write: @Sendable () -> String

    /// - Parameter write: asked at each request; it must be quick, and ask nobody.
    package init(_ write: @escaping @Sendable () -> String = { "" }) {
        self.write = write
    }

    /// The page of a registry.
    ///
    /// - Parameter prepare: brings up to date what is counted elsewhere.
    package init(_ registry: PrometheusRegistry, prepare: @escaping @Sendable () -> Void = {}) {
        self.init {
            prepare()
            return registry.text
        }
    }

    package var text: String { write() }
}
