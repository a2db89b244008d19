/// Durations as people write them in manifests and settings: `250ms`, `10s`, `5m`, `1h`, `14d`.
enum DurationText {
    /// What a message says is expected.
    static let form = "a duration such as 250ms, 10s, 5m, 1h or 14d"

    private static let units: [(suffix: String, milliseconds: Int64)] = [
        ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
    ]

    /// A whole number with a unit; nil for anything else, and for what is longer than a thousand years.
    static func parse(_ text: String) -> Duration? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard !digits.isEmpty, let count = Int64(digits),
            let unit = units.first(where: { $0.suffix == text.dropFirst(digits.count) })
        else { return nil }
        let (milliseconds, overflows) = count.multipliedReportingOverflow(by: unit.milliseconds)
        guard !overflows, milliseconds <= 365_000 * 86_400_000 else { return nil }
        return .milliseconds(milliseconds)
    }

    /// The shortest way to write `duration`, rounded down to milliseconds.
    static func write(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = seconds * 1_000 + attoseconds / 1_000_000_000_000_000
        guard milliseconds != 0 else { return "0s" }
        let unit = units.last { milliseconds % $0.milliseconds == 0 } ?? units[0]
        return "\(milliseconds / unit.milliseconds)\(unit.suffix)"
    }
}
