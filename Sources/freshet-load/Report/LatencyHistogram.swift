// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetService
import Histogram
import JSON
import WidgetModel

/// Longest latency that is distinguished, in microseconds.
private let longestLatency: UInt64 = 600_000_000

extension Histogram<UInt32> {
    /// Latencies to three digits, from a microsecond to ten minutes; what is longer counts as ten minutes.
    static func latencies() -> Histogram {
        Histogram(highestTrackableValue: longestLatency, numberOfSignificantValueDigits: .three)
    }

    mutating func record(_ latency: Duration) {
        _ = record(Swift.min(UInt64(Swift.max(0, latency / .microseconds(1))), longestLatency))
    }

    var summary: LatencySummary {
        func milliseconds(_ percentile: Double) -> Double { Double(valueAtPercentile(percentile)) / 1_000 }
        guard totalCount > 0 else { return LatencySummary() }
        return LatencySummary(
            samples: Int(totalCount), p50: milliseconds(50), p90: milliseconds(90), p99: milliseconds(99),
            p999: milliseconds(99.9), max: Double(max) / 1_000)
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
