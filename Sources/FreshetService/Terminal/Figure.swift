import Foundation

/// Figures for people, short.
package enum Figure {
    /// `950`, `12.3k`, `4.56M`.
    package static func short(_ value: Double) -> String {
        let size = abs(value)
        for (limit, suffix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] where size >= limit * 0.999_5 {
            return digits(value / limit) + suffix
        }
        return digits(value)
    }

    /// `512 B`, `12.3 MB`.
    package static func bytes(_ value: Double) -> String {
        for (limit, suffix) in [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")] where abs(value) >= limit * 0.999_5 {
            return digits(value / limit) + " " + suffix
        }
        return digits(value) + " B"
    }

    /// `45 s`, `2:05`, `1:02:05`.
    package static func time(_ seconds: Double) -> String {
        guard seconds.isFinite else { return "–" }
        let whole = Int(max(0, seconds).rounded())
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        if whole < 60 { return "\(whole) s" }
        if whole < 3_600 { return "\(whole / 60):\(two(whole % 60))" }
        return "\(whole / 3_600):\(two(whole / 60 % 60)):\(two(whole % 60))"
    }

    /// Three digits that count, without zeros at the end.
    package static func digits(_ value: Double) -> String {
        guard value.isFinite else { return "–" }
        let size = abs(value)
        let places = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size == 0 ? 0 : 3
        var text = String(format: "%.\(places)f", value)
        guard text.contains(".") else { return text }
        while text.hasSuffix("0") { text.removeLast() }
        if text.hasSuffix(".") { text.removeLast() }
        return text
    }
}
