import ArgumentParser
import FreshetService
import KafkaClient
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

    @Option(help: "The app's bundle identifier.")
    var app: String

    @Flag(help: "Show the last decisions on the widget's timeline, oldest first.")
    var history = false

    @OptionGroup var output: OutputOptions

    func validate() throws {
        let names = "expected a widget's id, or --stack and --user"
        guard (widget == nil) == (stack != nil), (stack == nil) == (user == nil) else { throw ValidationError(names) }
        guard stack == nil || !history else { throw ValidationError("--history is of a widget") }
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
            .listRegistrations(app: app, user: explanation.user, device: explanation.device)
        ).first
        let text = ExplanationText(
            widget: explanation, events: events, refused: refused, ignored: ignored, registration: registered)
        output.print(
            Self.adding(registered, to: explanation.json(events: events, refused: refused, ignored: ignored)),
            or: text.lines.joined(separator: "\n"))
    }

    private static func adding(_ registration: Registration?, to json: JSONValue) -> JSONValue {
        guard case .object(var object) = json else { return json }
        object["delivery"] = registration?.json ?? .null
        return .object(object)
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

struct DecisionHistory: Sendable {
    static let limit = 50
    /// Messages of each partition that are looked through, from the end.
    static let scanned: Int64 = 50_000

    struct Entry: Sendable {
        let time: String
        let decision: JSONValue

        var json: JSONValue {
            guard case .object(let object) = decision else { return decision }
            return .object(JSONObject([JSONObject.Member(key: "time", value: .string(time))] + object.members))
        }

        var cells: [String] {
            func text(_ name: String) -> String {
                switch decision[name] {
                case .string(let text)?: text
                case .number(let number)?: number.text
                default: "-"
                }
            }
            let cause = decision["cause"].flatMap { cause -> String? in
                guard let topic = cause["topic"]?.stringValue, let partition = cause["partition"]?.numberValue,
                    let offset = cause["offset"]?.numberValue
                else { return nil }
                return "\(topic)[\(partition)] \(offset)"
            }
            return [time, text("decision"), text("rule"), text("reason"), cause ?? "-", text("dueAt")]
        }
    }

    let kafka: KafkaConfiguration
    let topic: String

    /// The last decisions on a timeline, oldest first.
    func entries(of timeline: TimelineID) async throws -> [Entry] {
        let admin = KafkaAdmin(configuration: kafka, timeout: .seconds(10), logger: LogSettings.ofCommands)
        let reader = KafkaReader(configuration: kafka, logger: LogSettings.ofCommands)
        guard let description = try await admin.describe(topics: [topic]).first else { return [] }
        let places = description.partitions.map { TopicPartition(topic: topic, partition: $0.id) }
        let key = Array(timeline.description.utf8)
        var entries: [Entry] = []
        for (place, bounds) in try await admin.bounds(of: places) where bounds.end > bounds.earliest {
            let first = max(bounds.earliest, bounds.end - Self.scanned)
            guard let batch = try await reader.messages(of: place, at: first...bounds.end - 1) else { continue }
            for index in 0..<batch.count {
                guard let range = batch.key(index), batch.bytes[range].elementsEqual(key),
                    let value = batch.value(index), let decision = try? JSONValue.parse(Array(batch.bytes[value]))
                else { continue }
                let time = batch.header(index, named: "ce_time").map { batch.bytes[$0] } ?? []
                entries.append(Entry(time: String(decoding: time, as: UTF8.self), decision: decision))
            }
        }
        // The events of one timeline are in one partition, unless the number of partitions was changed.
        return Array(entries.sorted { $0.time < $1.time }.suffix(Self.limit))
    }
}
