import ArgumentParser
import FreshetService
import KafkaClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

struct ExplainCommand: AppCommand {
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

            --stack explains a stack of --user instead: which widget is on top and why, why the others are not, and what is \
            planned for the next 24 hours.

            Examples:
              freshet explain --app com.example.bank w1
              freshet explain --app com.example.bank --user u42 --stack home
              freshet explain --app com.example.bank w1 --json
              freshet explain --app com.example.bank w1 --history
            """)

    @Argument(help: "The widget's id.")
    var widget: String?

    @Option(help: "A stack of --user, in place of a widget.")
    var stack: String?

    @Option(help: "The user of the stack.")
    var user: String?

    @Option(help: "The device of the stack; all devices otherwise.")
    var device: String?

    @Flag(help: "Show the last decisions on the widget's timeline, oldest first.")
    var history = false

    @OptionGroup var options: AppOptions

    func validate() throws {
        let names = "expected a widget's id, or --stack and --user"
        guard (widget == nil) == (stack != nil), (stack == nil) == (user == nil) else { throw ValidationError(names) }
        guard stack == nil || !history else { throw ValidationError("--history: expected with a widget") }
    }

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        if let stack, let user { return try await explainStack(stack, of: user, store, settings) }
        guard let widget else { return }
        let ignored = try await store.query(.ignoredEvents(app: app, widget: widget))
        guard let explanation = try await store.query(.readExplanation(app: app, widget: widget)).first else {
            let events = ignored.map { "; ignored: \($0.sentence())" }.joined()
            throw CommandFailure(.failure, "app \(Text.quoted(app)) has no widget \(Text.quoted(widget))\(events)")
        }
        if history { return try await showHistory(explanation.timelineID, settings) }
        let keys = [explanation.widget, explanation.user, explanation.device]
        let refused = try await store.query(.refusedRequests(app: app, keys: keys))
        let reader = settings.namedKafka.map { KafkaReader(configuration: $0, logger: LogSettings.ofCommands) }
        let events = await EventLookup(
            reader: reader, topics: settings.topics.inputs, sorts: settings.topics.inputSorts
        ).events(explanation.timeline?.causes ?? [], of: app)
        let registered = try await store.query(
            .listRegistrations(
                app: app, user: explanation.user, device: explanation.device, timeline: explanation.timelineID)
        ).first
        let text = ExplanationText(
            widget: explanation, events: events, refused: refused, ignored: ignored, registration: registered)
        output.print(
            explanation.json(events: events, refused: refused, ignored: ignored, registration: registered),
            or: text.lines.joined(separator: "\n"))
    }

    private func showHistory(_ timeline: TimelineID?, _ settings: Settings) async throws {
        guard let kafka = settings.namedKafka else {
            throw CommandFailure(.configuration, "--history reads topics.decisions: set kafka.bootstrapServers")
        }
        let history = DecisionHistory(kafka: kafka, topic: settings.topics.decisions)
        let entries = if let timeline { try await history.entries(of: timeline) } else { [JSONValue]() }
        output.print(
            entries,
            columns: [
                "TIME": "time", "DECISION": "decision", "RULE": "rule", "REASON": "reason", "CAUSE": "cause",
                "DUE": "dueAt",
            ])
        if entries.isEmpty {
            Terminal.complain("\(settings.topics.decisions) has no decisions on it: is workers.publishDecisions on?")
        }
    }
}

struct DecisionHistory: Sendable {
    static let limit = 50
    /// Messages of each partition that are looked through, from the end.
    static let scanned: Int64 = 50_000

    let kafka: KafkaConfiguration
    let topic: String

    /// The last decisions on a timeline with their times, oldest first.
    func entries(of timeline: TimelineID) async throws -> [JSONValue] {
        let admin = KafkaAdmin(configuration: kafka, timeout: .seconds(10), logger: LogSettings.ofCommands)
        let reader = KafkaReader(configuration: kafka, logger: LogSettings.ofCommands)
        guard let description = try await admin.describe(topics: [topic]).first else { return [] }
        let places = description.partitions.map { TopicPartition(topic: topic, partition: $0.id) }
        let key = Array(timeline.description.utf8)
        var entries: [(time: String, decision: JSONValue)] = []
        for (place, bounds) in try await admin.bounds(of: places) where bounds.end > bounds.earliest {
            let first = max(bounds.earliest, bounds.end - Self.scanned)
            guard let batch = try await reader.messages(of: place, at: first...bounds.end - 1) else { continue }
            for index in 0..<batch.count {
                guard let range = batch.key(index), batch.bytes[range].elementsEqual(key),
                    let value = batch.value(index), let decision = try? JSONValue.parse(Array(batch.bytes[value]))
                else { continue }
                let time = batch.header(index, named: "ce_time").map { batch.bytes[$0] } ?? []
                entries.append((String(decoding: time, as: UTF8.self), decision))
            }
        }
        // The events of one timeline are in one partition, unless the number of partitions was changed.
        return entries.sorted { $0.time < $1.time }.suffix(Self.limit).map {
            $0.decision.adding("time", .string($0.time))
        }
    }
}
