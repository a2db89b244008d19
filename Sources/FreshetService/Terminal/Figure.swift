import Foundation

/// Figures for people, short.
package enum Figure {
    /// `512 B`, `12.3 MB`.
    package static func bytes(_ value: Double) -> String {
        for (limit, suffix) in [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")] where abs(value) >= limit * 0.999_5 {
            return digits(value / limit) + " " + suffix
        }
        return digits(value) + " B"
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
