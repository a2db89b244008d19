import Foundation

/// Scale of an axis: the positions of values, and the labelled values.
package struct ChartScale: Sendable, Equatable {
    package let low: Double
    package let high: Double
    package let isLogarithmic: Bool

    /// From 0 to a value.
    package static func linear(endingAt high: Double) -> ChartScale {
        ChartScale(low: 0, high: high, isLogarithmic: false)
    }

    /// From 0 to a round number over the largest value.
    package static func linear(upTo largest: Double) -> ChartScale {
        let step = roundStep(max(largest, 1e-9) / 4)
        return linear(endingAt: (max(largest, 1e-9) / step).rounded(.up) * step)
    }

    /// Whole powers of ten around the values, which are over 0.
    package static func logarithmic(from least: Double, upTo largest: Double) -> ChartScale {
        let low = pow(10, log10(max(least, 1e-6)).rounded(.down))
        let high = pow(10, log10(max(largest, 1e-6)).rounded(.up))
        return ChartScale(low: low, high: high > low ? high : low * 10, isLogarithmic: true)
    }

    /// 0 at the low end, 1 at the high one.
    package func place(_ value: Double) -> Double {
        let share =
            isLogarithmic
            ? (log10(max(value, low)) - log10(low)) / (log10(high) - log10(low)) : (value - low) / (high - low)
        return min(max(share, 0), 1)
    }

    package var ticks: [Double] {
        if isLogarithmic {
            let powers = Int(log10(low).rounded())...Int(log10(high).rounded())
            // At most six of them.
            let stride = (powers.count + 5) / 6
            return powers.enumerated().filter { $0.offset % stride == 0 }.map { pow(10, Double($0.element)) }
        }
        let step = Self.roundStep((high - low) / 4)
        let count = Int((high - low) / step + 0.001)
        return (0...max(count, 1)).map { low + Double($0) * step }
    }

    /// 1, 2 or 5 times a power of ten, at least `least`.
    private static func roundStep(_ least: Double) -> Double {
        let power = pow(10, log10(least).rounded(.down))
        return [1, 2, 5, 10].map { $0 * power }.first { $0 >= least * 0.999_999 } ?? power * 10
    }
}
