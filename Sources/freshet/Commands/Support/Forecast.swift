import WidgetModel
import WidgetStore

/// Scheduled reloads by provider and hour, as a document and as a chart.
struct Forecast {
    struct Provider: Equatable {
        let app: String
        let url: String
        var kinds: [String] = []
        /// Due already.
        var now = 0
        /// From the begin of the current hour.
        var hours: [Int]
        // Not among these: being fetched; of paused kinds; of retired ones.
        var leased = 0
        var paused = 0
        var retired = 0

        var total: Int { now + hours.reduce(0, +) }
    }

    /// By app and URL: two apps at one URL are two providers.
    private(set) var providers: [Provider] = []
    private let hours: Int
    private let start: Timestamp?
    private let readAt: Timestamp?

    init(_ rows: [ForecastDue.Row], hours: Int) {
        self.hours = hours
        start = rows.first?.start
        readAt = rows.first?.readAt
        for row in rows {
            let index =
                providers.firstIndex { Text.equal($0.app, row.app) && Text.equal($0.url, row.provider) }
                ?? providers.endIndex
            if index == providers.endIndex {
                providers.append(
                    Provider(app: row.app, url: row.provider, hours: Array(repeating: 0, count: hours)))
            }
            providers[index].add(row)
        }
        providers.sort { ($0.app, $0.url) < ($1.app, $1.url) }
    }

    var total: Int { providers.reduce(0) { $0 + $1.total } }

    private func begin(of hour: Int) -> Timestamp {
        (start ?? Timestamp(microseconds: 0)) + .seconds(3_600) * hour
    }

    // MARK: Document

    var json: JSONValue {
        [
            "readAt": readAt.map { .string($0.rfc3339) } ?? .null, "hours": .number(JSONNumber(hours)),
            "total": .number(JSONNumber(total)), "providers": .array(providers.map(json)),
        ]
    }

    private func json(_ provider: Provider) -> JSONValue {
        [
            "app": .string(provider.app), "provider": .string(provider.url),
            "kinds": .array(provider.kinds.map { .string($0) }), "now": .number(JSONNumber(provider.now)),
            "hours": .array(
                provider.hours.enumerated().map { hour, reloads in
                    ["from": .string(begin(of: hour).rfc3339), "reloads": .number(JSONNumber(reloads))]
                }),
            "total": .number(JSONNumber(provider.total)), "leased": .number(JSONNumber(provider.leased)),
            "paused": .number(JSONNumber(provider.paused)), "retired": .number(JSONNumber(provider.retired)),
        ]
    }

    // MARK: Chart

    /// Columns of a line of the chart.
    static let width = 80

    var lines: [String] {
        guard !providers.isEmpty else { return ["no kinds are registered"] }
        // One scale for all, so that providers can be compared.
        let most = providers.flatMap { [$0.now] + $0.hours }.max() ?? 0
        let digits = NumberText.grouped(most).count
        var lines: [String] = []
        for provider in providers {
            lines.append("\(provider.app) · \(provider.url) · \(provider.kinds.joined(separator: ", "))")
            lines += chart(of: provider, most: most, digits: digits)
            lines.append("  \(summary(of: provider))")
            lines.append("")
        }
        lines.append("\(NumberText.counted(total, "reload")) scheduled in \(hours) h")
        return lines
    }

    private func chart(of provider: Provider, most: Int, digits: Int) -> [String] {
        guard provider.total > 0 else { return [] }
        let last = provider.hours.lastIndex { $0 > 0 } ?? -1
        let rows =
            [("now", provider.now)]
            + provider.hours.indices.prefix(last + 1).map { (label(of: $0), provider.hours[$0]) }
        return rows.map { label, reloads in
            let number = NumberText.grouped(reloads)
            let head =
                "  " + label + String(repeating: " ", count: 11 - label.count + 2 + digits - number.count) + number
            let bar = Self.bar(reloads, of: most, columns: Self.width - 2 - 11 - 2 - digits - 2)
            return bar.isEmpty ? head : "\(head)  \(bar)"
        }
    }

    /// `06-22 10:00`.
    private func label(of hour: Int) -> String {
        String(begin(of: hour).rfc3339.dropFirst(5).prefix(11)).replacing("T", with: " ")
    }

    private func summary(of provider: Provider) -> String {
        var parts = ["\(NumberText.grouped(provider.total)) scheduled"]
        for (count, what) in [
            (provider.leased, "being fetched"), (provider.paused, "paused"), (provider.retired, "of retired kinds"),
        ] where count > 0 {
            parts.append("\(NumberText.grouped(count)) \(what)")
        }
        return parts.joined(separator: ", ")
    }

    /// As long as the number's share of the columns, in eighths of one; what is not zero can be seen.
    static func bar(_ number: Int, of most: Int, columns: Int) -> String {
        guard number > 0, most > 0 else { return "" }
        let eighths = max(1, Int((Double(number) / Double(most) * Double(columns * 8)).rounded()))
        let parts = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
        return String(repeating: "█", count: eighths / 8) + parts[eighths % 8]
    }
}

extension Forecast.Provider {
    fileprivate mutating func add(_ row: ForecastDue.Row) {
        if kinds.last.map({ !Text.equal($0, row.kind) }) ?? true { kinds.append(row.kind) }
        leased += row.leased
        if row.isRetired {
            retired += row.scheduled
        } else if row.isPaused {
            paused += row.scheduled
        } else if let hour = row.hour, hour < hours.count {
            if hour < 0 { now += row.scheduled } else { hours[hour] += row.scheduled }
        }
    }
}

enum NumberText {
    /// `1 reload`, `1,234 reloads`.
    static func counted(_ number: Int, _ noun: String) -> String {
        "\(grouped(number)) \(noun)\(number == 1 ? "" : "s")"
    }

    /// `1,234,567`.
    static func grouped(_ number: Int) -> String {
        let digits = Array(String(number.magnitude))
        var text = number < 0 ? "-" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return text
    }
}
