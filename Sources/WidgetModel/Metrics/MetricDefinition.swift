/// Name, type and description of a metric.
package struct MetricDefinition: Hashable, Sendable {
    package enum Instrument: Hashable, Sendable {
        /// Grows from 0 at the start of the process.
        case counter
        /// Current value.
        case gauge
        /// Numbers of values up to each of these bounds; the bounds ascend.
        case histogram([Double])

        package var name: String {
            switch self {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        }
    }

    /// Name by Prometheus' conventions: prefix `freshet_`, unit as suffix, and `_total` for counters.
    package var name: String
    package var instrument: Instrument
    /// Names of its labels; each has a bounded number of values.
    package var labels: [String]
    package var help: String

    package init(_ name: String, _ instrument: Instrument, labels: [String] = [], _ help: String) {
        self.name = name
        self.instrument = instrument
        self.labels = labels
        self.help = help
    }

    /// Bounds of times between a millisecond and an hour.
    package static let seconds: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600,
    ]
    /// Bounds of batch sizes.
    package static let sizes: [Double] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    ]
}
