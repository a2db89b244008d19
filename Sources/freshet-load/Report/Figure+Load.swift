import Foundation
import FreshetService

extension Figure {
    /// `950`, `12.3k`, `4.56M`.
    static func short(_ value: Double) -> String {
        let size = abs(value)
        for (limit, suffix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] where size >= limit * 0.999_5 {
            return digits(value / limit) + suffix
        }
        return digits(value)
    }

    /// `45 s`, `2:05`, `1:02:05`.
    static func time(_ seconds: Double) -> String {
        guard seconds.isFinite else { return "–" }
        let whole = Int(max(0, seconds).rounded())
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        if whole < 60 { return "\(whole) s" }
        if whole < 3_600 { return "\(whole / 60):\(two(whole % 60))" }
        return "\(whole / 3_600):\(two(whole / 60 % 60)):\(two(whole % 60))"
    }
}
