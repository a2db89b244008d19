import Foundation
import SampleProvider

/// Ranks 1, 2, … n, the most popular first, with frequencies proportional to rank^-s.
///
/// Sampled by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
/// discrete distributions", 1996): constant time and memory whatever n is, about 1.1 draws a sample.
struct ZipfRanks: Sendable, Equatable {
    let count: Int
    let exponent: Double

    private let integralOfFirst: Double
    private let integralOfLast: Double
    private let acceptance: Double

    /// - Parameters:
    ///   - count: n, at least 1.
    ///   - exponent: s, over 0; 1 is Zipf's law.
    init(count: Int, exponent: Double) {
        self.count = max(1, count)
        self.exponent = exponent
        integralOfFirst = Self.integral(1.5, exponent) - 1
        integralOfLast = Self.integral(Double(self.count) + 0.5, exponent)
        acceptance = 2 - Self.inverse(Self.integral(2.5, exponent) - Self.density(2, exponent), exponent)
    }

    /// A rank from 1 to `count`.
    func sample(using random: inout SampleRandom) -> Int {
        while true {
            let area = integralOfLast + random.unit() * (integralOfFirst - integralOfLast)
            let position = Self.inverse(area, exponent)
            let rank = min(max(1, Int(position + 0.5)), count)
            let distance = Double(rank) - position
            if distance <= acceptance
                || area >= Self.integral(Double(rank) + 0.5, exponent) - Self.density(Double(rank), exponent)
            {
                return rank
            }
        }
    }

    /// x^-s.
    private static func density(_ x: Double, _ s: Double) -> Double { exp(-s * log(x)) }

    /// The integral of ``density(_:_:)`` from 1 to x, well-behaved around s = 1.
    private static func integral(_ x: Double, _ s: Double) -> Double {
        let logarithm = log(x)
        let exponent = (1 - s) * logarithm
        let factor = abs(exponent) > 1e-8 ? expm1(exponent) / exponent : 1 + exponent / 2 * (1 + exponent / 3)
        return factor * logarithm
    }

    private static func inverse(_ area: Double, _ s: Double) -> Double {
        let argument = max(-1, area * (1 - s))
        let factor = abs(argument) > 1e-8 ? log1p(argument) / argument : 1 - argument / 2 + argument * argument / 3
        return exp(factor * area)
    }
}

extension SampleRandom {
    /// At least 0 and under 1, of 53 bits: ours rather than the standard library's, whose algorithm may change, so that
    /// a seed always gives the same stream.
    mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

    /// A number from 0 to under `count`.
    mutating func below(_ count: Int) -> Int {
        Int(truncatingIfNeeded: next().multipliedFullWidth(by: UInt64(max(1, count))).high)
    }
}
