import ArgumentParser
import FreshetService
import KafkaClient
import PostgresClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

struct ExplainCommand: StoreCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Explains why a widget did or did not reload, and when it will reload next.",
        discussion: """
            Shows requested and rendered reloads with their events, the last decision with its rule, the rest of the \
            budget, the next due time and its reason. The events' ids and times are read from Kafka, if \
            kafka.bootstrapServers is set and the log still has them.

            --history shows the last \(DecisionHistory.limit) decisions on the widget's timeline instead, which workers publish to \
            topics.decisions if workers.publishDecisions is on. It looks through the last \(DecisionHistory.scanned) messages of each \
            partition.

            Examples:
              freshet explain --app com.example.bank w1
              freshet explain --app com.example.bank w1 --json
              freshet explain --app com.example.bank w1 --history
            """)

    @Argument(help: "The widget's id.")
    var widget: String

    @Option(help: "The app's bundle identifier.")
    var app: String

    @Flag(help: "Show the last decisions on the widget's timeline, oldest first.")
    var history = false

    @OptionGroup var output: OutputOptions

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        let ignored = try await store.pool.query(.ignoredEvents(app: app, widget: widget))
        guard let explanation = try await store.pool.query(.readExplanation(app: app, widget: widget)).first else {
            let events = ignored.map { "; ignored: \($0.sentence())" }.joined()
            throw CommandFailure(.failure, "app \(Text.quoted(app)) has no widget \(Text.quoted(widget))\(events)")
        }
        if history { return try await showHistory(explanation.timelineID, settings) }
        let keys = [explanation.widget, explanation.user, explanation.device]
        let refused = try await store.pool.query(.refusedRequests(app: app, keys: keys))
        let reader = settings.namedKafka.map { KafkaReader(configuration: $0, logger: LogSettings.ofCommands) }
        let events = await EventLookup(
            reader: reader, topics: settings.topics.inputs, sorts: settings.topics.inputSorts
        ).events(explanation.timeline?.causes ?? [], of: app)
        let text = ExplanationText(widget: explanation, events: events, refused: refused, ignored: ignored)
        output.print(
            explanation.json(events: events, refused: refused, ignored: ignored),
            or: text.lines.joined(separator: "\n"))
    }

    private func showHistory(_ timeline: TimelineID?, _ settings: Settings) async throws {
        guard let kafka = settings.namedKafka else {
            throw CommandFailure(.configuration, "--history reads topics.decisions: set kafka.bootstrapServers")
        }
        var entries: [DecisionHistory.Entry] = []
        if let timeline {
            let history = DecisionHistory(kafka: kafka, topic: settings.topics.decisions)
            entries = try await history.entries(of: timeline)
        }
        output.print(entries, \.json, columns: "TIME", "DECISION", "RULE", "REASON", "CAUSE", "DUE", cells: \.cells)
        if entries.isEmpty {
            Terminal.complain("no decisions are on \(settings.topics.decisions): is workers.publishDecisions on?")
        }
    }
}
