import ArgumentParser
import KafkaClient
import PostgresClient
import WidgetAPI
import WidgetModel
import WidgetStore

struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Tells why a widget did or did not reload, and when it will next.",
        discussion: """
            Shows what is requested and rendered, by which events, the last decision with its rule, what is left of \
            the budget, the next due time and what it waits for. The events' ids and times are read from Kafka, if \
            kafka.bootstrapServers is set and the log still has them.

            Examples:
              freshet explain --app com.example.bank w1
              freshet explain --app com.example.bank w1 --json
            """)

    @Argument(help: "The widget's id.")
    var widget: String

    @Option(help: "The app's bundle identifier.")
    var app: String

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        try await settings.withStore { store, settings in
            guard let explanation = try await store.pool.query(ReadExplanation(app: app, widget: widget)).first else {
                throw CommandFailure(.failure, "app \(Text.quoted(app)) has no widget \(Text.quoted(widget))")
            }
            let keys = [explanation.widget, explanation.user, explanation.device]
            let refused = try await store.pool.query(RefusedRequests(app: app, keys: keys))
            let reader = settings.namedKafka.map { KafkaReader(configuration: $0, logger: LogSettings.ofCommands) }
            let events = await EventLookup(
                reader: reader, topics: settings.topics.inputs, sorts: settings.topics.inputSorts
            ).events(explanation.timeline?.causes ?? [], of: app)
            if json {
                Terminal.print(explanation.json(events: events, refused: refused))
            } else {
                for line in ExplanationText(explanation, events: events, refused: refused).lines {
                    Terminal.print(line)
                }
            }
        }
    }
}
