import ArgumentParser
import FreshetService
import KafkaClient
import PostgresClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Explains why a widget did or did not reload, and when it will reload next.",
        discussion: """
            Shows requested and rendered reloads with their events, the last decision with its rule, the rest of the \
            budget, the next due time and its reason. The events' ids and times are read from Kafka, if \
            kafka.bootstrapServers is set and the log still has them.

            Examples:
              freshet explain --app com.example.bank w1
              freshet explain --app com.example.bank w1 --json
            """)

    @Argument(help: "The widget's id.")
    var widget: String

    @Option(help: "The app's bundle identifier.")
    var app: String

    @OptionGroup var output: OutputOptions

    func run() async throws {
        try await output.settings.withStore { store, settings in
            guard let explanation = try await store.pool.query(ReadExplanation(app: app, widget: widget)).first else {
                throw CommandFailure(.failure, "app \(Text.quoted(app)) has no widget \(Text.quoted(widget))")
            }
            let keys = [explanation.widget, explanation.user, explanation.device]
            let refused = try await store.pool.query(RefusedRequests(app: app, keys: keys))
            let ignored = try await store.pool.query(IgnoredEvents(app: app, widget: widget))
            let reader = settings.namedKafka.map { KafkaReader(configuration: $0, logger: LogSettings.ofCommands) }
            let events = await EventLookup(
                reader: reader, topics: settings.topics.inputs, sorts: settings.topics.inputSorts
            ).events(explanation.timeline?.causes ?? [], of: app)
            if output.json {
                Terminal.print(explanation.json(events: events, refused: refused, ignored: ignored))
            } else {
                let text = ExplanationText(explanation, events: events, refused: refused, ignored: ignored)
                for line in text.lines { Terminal.print(line) }
            }
        }
    }
}
