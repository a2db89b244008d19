import ArgumentParser
import FreshetService
import WidgetModel
import WidgetRepresentation
import WidgetStore

struct ForecastCommand: StoreCommand {
    static let configuration = CommandConfiguration(
        commandName: "forecast",
        abstract: "Shows scheduled reloads by provider and hour.",
        discussion: """
            Counts timelines by their next due time; overdue ones count as due now. Future events are not included. \
            Timelines of paused and retired kinds, and those being fetched, are counted separately. Hours are UTC; the \
            first one is the rest of the current hour.

            Examples:
              freshet forecast
              freshet forecast --hours 6 --app com.example.bank
              freshet forecast --json
            """)

    @Option(help: "Hours to look ahead, the current one included.", transform: OptionText.number(1...168))
    var hours = 24

    @Option(help: "Only kinds of this app.")
    var app: String?

    @OptionGroup var output: OutputOptions

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        let rows = try await store.query(.forecastDue(app: app, hours: hours))
        if rows.isEmpty, let app {
            throw try await KindLookup.notFound(nil, of: app, in: store)
        }
        let forecast = Forecast(rows, hours: hours)
        output.print(forecast.json, or: forecast.lines.joined(separator: "\n"))
    }
}

extension Forecast {
    /// Width of the chart in columns.
    static let width = 80

    var lines: [String] {
        guard !providers.isEmpty else { return ["no kinds are registered"] }
        // All providers have the same scale.
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

    /// Bar for the number's share of the columns, in eighths of a column; at least one eighth unless it is zero.
    static func bar(_ number: Int, of most: Int, columns: Int) -> String {
        guard number > 0, most > 0 else { return "" }
        let eighths = max(1, Int((Double(number) / Double(most) * Double(columns * 8)).rounded()))
        let parts = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
        return String(repeating: "█", count: eighths / 8) + parts[eighths % 8]
    }
}
