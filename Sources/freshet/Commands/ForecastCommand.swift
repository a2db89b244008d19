import ArgumentParser
import FreshetService
import PostgresClient
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
        let rows = try await store.pool.query(.forecastDue(app: app, hours: hours))
        if rows.isEmpty, let app {
            throw try await KindLookup.notFound(nil, of: app, in: store)
        }
        let forecast = Forecast(rows, hours: hours)
        output.print(forecast.json, or: forecast.lines.joined(separator: "\n"))
    }
}
