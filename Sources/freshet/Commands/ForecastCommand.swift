import ArgumentParser
import PostgresClient
import WidgetAPI
import WidgetModel
import WidgetStore

struct ForecastCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forecast",
        abstract: "Shows the load to come: the reloads that are scheduled already, by provider and hour.",
        discussion: """
            Counts timelines by their next due time; what is overdue is due now. Pushes, changes in apps and views to \
            come are not known and not in it. Timelines of paused and retired kinds, and those that are being fetched, \
            are told apart. Hours are UTC; the first one is what is left of the current hour.

            Examples:
              freshet forecast
              freshet forecast --hours 6 --app com.example.bank
              freshet forecast --json
            """)

    @Option(help: "Hours to look ahead, the current one included.")
    var hours = 24

    @Option(help: "Only kinds of this app.")
    var app: String?

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var settings: SettingsOptions

    func validate() throws {
        guard (1...168).contains(hours) else { throw ValidationError("--hours \(hours): expected 1 to 168") }
    }

    func run() async throws {
        try await settings.withStore { store, _ in
            let rows = try await store.pool.query(ForecastDue(app: app, hours: hours))
            if rows.isEmpty, let app {
                throw CommandFailure(
                    .failure, "no app \(Text.quoted(app)) with kinds is registered; `freshet kinds list` shows all")
            }
            let forecast = Forecast(rows, hours: hours)
            if json {
                Terminal.print(forecast.json)
            } else {
                for line in forecast.lines { Terminal.print(line) }
            }
        }
    }
}
