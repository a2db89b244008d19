/// Numbers of this process, as a page in Prometheus' text format (version 0.0.4).
package struct MetricsPage: Sendable {
    package enum Sort: String, Sendable {
        /// Only grows, from 0 at the start of the process.
        case counter
        /// As it is now.
        case gauge
    }

    package struct Metric: Sendable {
        /// With `freshet_` before it, and `_total` behind it if it is a counter.
        package var name: String
        package var sort: Sort
        package var help: String
        package var value: Int

        /// A counter.
        package init(_ name: String, _ help: String, _ value: Int) {
            self.init(name, .counter, help, value)
        }

        package init(_ name: String, _ sort: Sort, _ help: String, _ value: Int) {
            self.name = name
            self.sort = sort
            self.help = help
            self.value = value
        }
    }

    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private let metrics: @Sendable () -> [Metric]

    /// - Parameter metrics: read at each request.
    package init(_ metrics: @escaping @Sendable () -> [Metric] = { [] }) {
        self.metrics = metrics
    }

    package var text: String {
        metrics().map { metric in
            let name = "freshet_\(metric.name)" + (metric.sort == .counter ? "_total" : "")
            let help = metric.help.replacing("\\", with: "\\\\").replacing("\n", with: "\\n")
            return "# HELP \(name) \(help)\n# TYPE \(name) \(metric.sort.rawValue)\n\(name) \(metric.value)\n"
        }.joined()
    }
}
