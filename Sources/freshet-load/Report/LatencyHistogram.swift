import Foundation
import FreshetService
import Histogram
import JSON
import WidgetModel

/// Latencies to three digits, from a microsecond to ten minutes; what is longer counts as ten minutes.
struct LatencyHistogram: Sendable {
    private static let longest: UInt64 = 600_000_000

    private var histogram = Histogram<UInt32>(
        highestTrackableValue: LatencyHistogram.longest, numberOfSignificantValueDigits: .three)

    mutating func record(_ latency: Duration) {
        _ = histogram.record(min(UInt64(max(0, latency / .microseconds(1))), Self.longest))
    }

    mutating func reset() {
        histogram.reset()
    }

    var summary: LatencySummary {
        func milliseconds(_ percentile: Double) -> Double {
            Double(histogram.valueAtPercentile(percentile)) / 1_000
        }
        var summary = LatencySummary()
        summary.samples = Int(histogram.totalCount)
        guard summary.samples > 0 else { return summary }
        summary.p50 = milliseconds(50)
        summary.p90 = milliseconds(90)
        summary.p99 = milliseconds(99)
        summary.p999 = milliseconds(99.9)
        summary.max = Double(histogram.max) / 1_000
        return summary
    }
}

/// Percentiles in milliseconds; all zero without samples.
struct LatencySummary: Sendable, Equatable {
    var samples = 0
    var p50 = 0.0
    var p90 = 0.0
    var p99 = 0.0
    var p999 = 0.0
    var max = 0.0

    /// The percentiles alone.
    var percentiles: JSONValue {
        [
            "p50": .rounded(p50), "p90": .rounded(p90), "p99": .rounded(p99), "p999": .rounded(p999),
            "max": .rounded(max),
        ]
    }

    var json: JSONValue {
        guard case .object(var object) = percentiles else { return .null }
        object["samples"] = .number(JSONNumber(samples))
        return .object(object)
    }

    /// Ratio of this p99 to that of another summary; nil if one of them has no samples.
    func ratio(to other: LatencySummary) -> Double? {
        samples > 0 && other.samples > 0 && other.p99 > 0 ? p99 / other.p99 : nil
    }
}
