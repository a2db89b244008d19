// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetClient
import FreshetService
import JSON
import KafkaClient
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

struct PublishCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Publishes events to Kafka, as the services of an app do.",
        discussion: """
            Returns when Kafka's brokers have acknowledged every event. Where postgres.url is set, it refuses events for \
            an app or a kind that is not registered, and placements that the kind does not allow. It then waits until \
            a change of a widget has been applied, and fails if that has no effect, for instance because a newer change \
            had been applied. --no-check omits both.

            Events, with their options besides --app:
              push                a service asks for a reload: an audience, --kind, --matching
              app-change          something that widgets show has changed in the app: the same, and --state
              widget placed       ID --user --device --kind, and --family, --configuration, --locale, --time-zone
              widget configured   ID --user --configuration, with all values
              widget removed      ID --user
              widget viewed       ID --user
              widget environment  a device's language or time zone has changed: ID of the device --user --locale \
            --time-zone --significant-time-change
              stack changed       STACK WIDGET… --user --device, from top to bottom; no widgets remove the stack
              stack turned        STACK WIDGET --user --device
              shortcuts replaced  --user --shortcuts, and --device
              interaction donated --user --kind, and --configuration, --device, --time-zone
              device registered   ID of the device --user --channel
              device unregistered ID of the device --user
            An audience is one of --user, --device, --widget and --everyone. The user of a widget is the partition key \
            that keeps its events in order.

            With --stdin each line of standard input is an event: a CloudEvent in JSON, or {"type", "data"} with any \
            of "id", "source", "time", "key". Invalid lines are reported with their numbers; the others are published, \
            and the exit status is 1. Effects are not awaited.

            Examples:
              freshet publish push --app com.example.bank --user u42 --kind DueDate --matching '{"card":"acme"}'
              freshet publish push --app com.example.bank --everyone
              freshet publish app-change --app com.example.bank --user u42 --state foreground
              freshet publish widget placed --app com.example.bank --user u42 --device d1 --kind DueDate w1
              freshet publish widget environment --app com.example.bank --user u42 --locale de-DE d1
              freshet publish stack changed --app com.example.bank --user u42 --device d1 home w1 w2
              freshet publish stack turned --app com.example.bank --user u42 --device d1 home w2
              freshet publish shortcuts replaced --app com.example.bank --user u42 --shortcuts '[{"kind":"DueDate"}]'
              freshet publish interaction donated --app com.example.bank --user u42 --kind DueDate --time now-1h
              freshet publish device registered --app com.example.bank --user u42 --channel '{"webhook":true}' d1
              freshet publish --stdin < events.jsonl
            """)

    @Argument(help: ArgumentHelp("Name of the event, and the ids of its widget, stack or device.", valueName: "event"))
    var words: [String] = []

    @Flag(name: .customLong("stdin"), help: "Publish the events of JSON lines on standard input.")
    var readsLines = false

    @Option(help: "The app's bundle identifier.", transform: OptionText.identifier)
    var app: String?

    @OptionGroup(title: "Audience or target") var scope: ScopeOptions

    enum AppState: String, ExpressibleByArgument, CaseIterable {
        case foreground, background
    }

    @Option(help: "State of the app: foreground (costs no budget) or background.")
    var state: AppState?

    @Option(help: "The widget's family, such as systemSmall.", transform: OptionText.family)
    var family = WidgetFamily.systemSmall

    @Option(
        help: ArgumentHelp("The configured values.", valueName: "json"), transform: OptionText.configuration)
    var configuration: WidgetConfiguration?

    @OptionGroup var environment: DeviceEnvironment

    @Flag(inversion: .prefixedNo, help: "Whether the stack rotates by itself.")
    var smartRotate = true

    @Flag(inversion: .prefixedNo, help: "Whether the stack takes suggestions.")
    var suggestions = true

    @Option(
        help: ArgumentHelp("The whole set of shortcuts, an array as in the event.", valueName: "json"),
        transform: OptionText.json)
    var shortcuts: JSONValue?

    @Option(
        help: ArgumentHelp("Channel of the device's notifications, an object as in the event.", valueName: "json"),
        transform: OptionText.json)
    var channel: JSONValue?

    @Flag(help: "Midnight passed, or the clock or time zone was set: also reload the device's widgets.")
    var significantTimeChange = false

    @OptionGroup var options: EventOptions

    func validate() throws {
        if !readsLines { _ = try event() }
        if readsLines, !words.isEmpty { throw ValidationError("--stdin: expected without the name of an event") }
    }

    func run() async throws {
        guard !readsLines else { return try await publishLines() }
        let (event, key) = try event()
        try await options.publish(event, key: key)
    }

    private func publishLines() async throws {
        let values = try options.settings.load(requiring: ["kafka.bootstrapServers"]).settings
        let reader = try LineReader("-", maximumBytes: 4 << 20)
        let lines = EventLines(
            targets: try await KindDirectory.load(values, noCheck: options.noCheck), now: Timestamp.now)
        let counts = try await values.withPublisher { publisher in
            try await lines.publish(reader, to: publisher) { Terminal.complain($0) }
        }
        if options.json {
            Terminal.printLine(["published": .count(counts.published), "failed": .count(counts.failed)])
        } else {
            Terminal.print("published \(counts.published) events, \(counts.failed) failed")
        }
        if let error = counts.unavailable { throw error }
        guard counts.failed == 0 else { throw CommandFailure(.failure, "not all events were published") }
    }
}

struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Reloads timelines on an operator's behalf (freshet.reload.requested.v1).",
        discussion: """
            Such a reload needs neither budget nor spacing. It is published to Kafka like every other request; explain \
            shows the printed id and position. Where postgres.url is set, an app or a kind that is not registered is \
            refused, unless --no-check is given.

            Examples:
              freshet reload --app com.example.bank --user u42
              freshet reload --app com.example.bank --everyone --kind RecentPurchases --matching '{"card":"acme"}'
            """)

    @Option(help: "The app's bundle identifier.", transform: OptionText.identifier)
    var app: String

    @OptionGroup var scope: ScopeOptions
    @OptionGroup var options: EventOptions

    func validate() throws {
        _ = try scope.request(app: app, reason: .operator)
    }

    func run() async throws {
        try await options.publish(FreshetEvent(try scope.request(app: app, reason: .operator)))
    }
}

/// Attributes of a published event, and the settings of publishing.
struct EventOptions: ParsableArguments {
    @Option(help: "Time of the event: \(OptionText.timeForm); now by default.", transform: OptionText.time)
    var time: Timestamp?

    @Option(help: "Id of the event; random by default.")
    var id: String?

    @Option(help: "Source of the event, a URI reference.")
    var source = EventLines.source

    @Flag(help: "Print the position of the event, or the counts of events, as JSON.")
    var json = false

    @Flag(help: "Publish without checks of app, kind and configuration, and do not wait for the effect of a change.")
    var noCheck = false

    @OptionGroup var settings: SettingsOptions

    /// Configuration of the widget that an event places again; nil for others.
    private func storedConfiguration(of event: FreshetEvent) async -> WidgetConfiguration? {
        guard case .widget(.placed(let placement)) = event.change,
            let widget = try? await settings.withStore({ store, _ in
                try await store.widget(placement.widget, of: event.app)
            }), widget.timelineID != nil, Text.equal(widget.kind, placement.kind)
        else { return nil }
        return widget.configuration.map { WidgetConfiguration(storedCanonical: $0) }
    }

    /// Publishes an event; waits for the effect of a change if a database is configured.
    ///
    /// - Throws: `CommandFailure` if the change has no effect.
    func publish(_ event: FreshetEvent, key: String? = nil) async throws {
        var outgoing = OutgoingEvent(
            event, id: id ?? String.randomID(), source: source, time: time ?? Timestamp.now(), key: key)
        let values = try settings.load(requiring: ["kafka.bootstrapServers"]).settings
        let waits = event.type.topic == .widgets && !noCheck && values.postgres.url != nil
        outgoing.handling.keepsOutcome = waits
        let directory = try await KindDirectory.load(values, noCheck: noCheck)
        var problems = directory?.problems(with: event) ?? []
        if !problems.isEmpty, let stored = await storedConfiguration(of: event) {
            problems = directory?.problems(with: event, replacing: stored) ?? []
        }
        if let error = ModelError(joining: problems) {
            throw CommandFailure(.failure, "\(error) (--no-check publishes the event all the same)")
        }
        let (delivery, topic) = try await values.withPublisher { [outgoing] publisher in
            (try await publisher.publish(outgoing), publisher.topic(of: event))
        }
        let effect = waits ? try await effect(of: outgoing, delivery, values) : nil
        if json {
            var members: JSONObject = [
                "id": .string(outgoing.id), "topic": .string(topic), "partition": .count(delivery.partition),
                "offset": .count(delivery.offset),
            ]
            if waits { members["outcome"] = .text(effect?.result.rawValue) }
            Terminal.printLine(.object(members))
        } else {
            let offset = delivery.offset.map { " offset \($0)" } ?? ""
            Terminal.print("\(outgoing.id)  \(topic) partition \(delivery.partition)\(offset)")
        }
        if let reason = effect?.reason {
            throw CommandFailure(.failure, "the event was published and has no effect: \(reason)")
        }
        if waits, effect == nil {
            Terminal.complain(
                "the event was published and was not applied within \(Self.patience.words), so its effect is not known")
        }
    }
}

/// Audience, kinds and configuration of a reload request.
struct ScopeOptions: ParsableArguments {
    @Option(help: "The user.", transform: OptionText.identifier)
    var user: String?

    @Option(help: "The device.", transform: OptionText.identifier)
    var device: String?

    @Option(help: "The widget.", transform: OptionText.identifier)
    var widget: String?

    @Flag(help: "Everyone's widgets.")
    var everyone = false

    @Option(
        name: .customLong("kind"), parsing: .singleValue, help: "A kind; several may be given. All if none is.",
        transform: OptionText.identifier)
    var kinds: [String] = []

    @Option(
        help: ArgumentHelp("Only widgets whose configuration has these values.", valueName: "json"),
        transform: OptionText.configuration)
    var matching: WidgetConfiguration?

    func request(app: String, reason: ReloadReason) throws -> ReloadRequest {
        let audiences =
            [user.map(Audience.user), device.map(Audience.device), widget.map(Audience.widget)].compactMap { $0 }
            + (everyone ? [.everyone] : [])
        guard audiences.count == 1 else {
            throw ValidationError("expected exactly one of --user, --device, --widget, --everyone")
        }
        return ReloadRequest(
            app: app, audience: audiences[0], kinds: KindScope(names: kinds) ?? .all, matching: matching, reason: reason
        )
    }
}

extension Settings {
    /// Lends a publisher, and awaits the outcome of its events.
    func withPublisher<Value: Sendable>(_ body: (EventPublisher) async throws -> Value) async throws -> Value {
        try await EventPublisher.withPublisher(
            kafka: requiredKafka(), deliveryTimeout: kafka.deliveryTimeout, topics: topicNames,
            source: EventLines.source, logger: .ofCommands, body)
    }
}

extension EventOptions {
    /// Longest wait for ingest.
    private static let patience = Duration.seconds(5)

    /// Waits until ingest has applied an event whose outcome is kept.
    ///
    /// - Returns: the recorded effect of the change of a widget, device or stack, with the reason if it has none; nil
    ///   if ingest has not applied it.
    private func effect(
        of event: OutgoingEvent, _ delivery: KafkaDelivery, _ settings: Settings
    ) async throws -> (result: EventOutcome.Result, reason: String?)? {
        let name = EventName(app: event.event.app, id: event.id, source: event.source)
        let deadline = ContinuousClock.now + Self.patience
        return try await settings.withPool { pool in
            while ContinuousClock.now < deadline {
                guard let outcome = try await pool.query(.readEventOutcome(name)).first else {
                    try await Task.sleep(for: .milliseconds(50))
                    continue
                }
                if let offset = delivery.offset, (offset, delivery.partition) != (outcome.offset, outcome.partition) {
                    return (.ignored, "an event of this source with this id was published before")
                }
                guard outcome.result != .applied else { return (.applied, nil) }
                let code = outcome.result == .deadLetter ? "\(outcome.code ?? "dead letter"): " : ""
                return (outcome.result, code + (outcome.detail ?? outcome.result.rawValue))
            }
            return nil
        }
    }
}
