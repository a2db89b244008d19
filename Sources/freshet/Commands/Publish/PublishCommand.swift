import ArgumentParser
import Foundation
import FreshetClient
import FreshetService
import KafkaClient
import WidgetEvents
import WidgetModel

struct PublishCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Publishes events to Kafka, as the services of an app do.",
        discussion: """
            Returns when Kafka's brokers have acknowledged every event. Where postgres.url is set, events for an app or a \
            kind that is not registered are refused, unless --no-check is given.

            With --stdin each line of standard input is an event: a CloudEvent in JSON, or {"type", "data"} with any \
            of "id", "source", "time", "key". Invalid lines are reported with their numbers; the others are published, and \
            the exit status is 1.

            Examples:
              freshet publish push --app com.example.bank --user u42 --kind DueDate --matching '{"card":"acme"}'
              freshet publish app-change --app com.example.bank --user u42 --state foreground
              freshet publish widget placed --app com.example.bank --user u42 --device d1 --kind DueDate w1
              freshet publish --stdin < events.jsonl
              echo '{"type":"freshet.push.received.v1","data":{"app":"com.example.bank",\
            "audience":{"user":"u42"},"kinds":"all"}}' | freshet publish --stdin
            """,
        subcommands: [Push.self, AppChange.self, PublishWidgetCommand.self, Lines.self],
        defaultSubcommand: Lines.self)

    struct EventOptions: ParsableArguments {
        @Option(help: "The app's bundle identifier.", transform: OptionText.identifier)
        var app: String

        @Option(help: "Time of the event (RFC 3339); now by default.", transform: OptionText.time)
        var time: Timestamp?

        @Option(help: "Id of the event; random by default.")
        var id: String?

        @Option(help: "Source of the event, a URI reference.")
        var source = EventLines.source

        @Flag(help: "Print the position of the event as JSON.")
        var json = false

        @Flag(help: "Publish also if the app or the kind is not registered.")
        var noCheck = false

        @OptionGroup var settings: SettingsOptions

        func publish(_ event: FreshetEvent, key: String? = nil) async throws {
            let outgoing = OutgoingEvent(
                event, id: id ?? RandomID.make(), source: source,
                time: time ?? WallClock.now(), key: key)
            let values = try settings.load(requiring: ["kafka.bootstrapServers"]).settings
            do {
                try await TargetCheck.load(values, noCheck: noCheck)?.check(event)
            } catch let unknown as TargetCheck.Unknown {
                throw CommandFailure(.failure, "\(unknown.message) (--no-check publishes the event all the same)")
            }
            let (delivery, topic) = try await values.withPublisher { publisher in
                (try await publisher.publish(outgoing), publisher.topic(of: event))
            }
            if json {
                Terminal.printLine([
                    "id": .string(outgoing.id), "topic": .string(topic),
                    "partition": .count(delivery.partition),
                    "offset": .count(delivery.offset),
                ])
            } else {
                let offset = delivery.offset.map { " offset \($0)" } ?? ""
                Terminal.print("\(outgoing.id)  \(topic) partition \(delivery.partition)\(offset)")
            }
        }
    }

    struct ScopeOptions: ParsableArguments {
        @Option(help: "For this user's widgets.")
        var user: String?

        @Option(help: "For this device's widgets.")
        var device: String?

        @Option(help: "For this widget.")
        var widget: String?

        @Flag(help: "For everyone's widgets.")
        var everyone = false

        @Option(name: .customLong("kind"), parsing: .singleValue, help: "A kind; several may be given. All if none is.")
        var kinds: [String] = []

        @Option(help: ArgumentHelp("Only widgets whose configuration has these values.", valueName: "json"))
        var matching: String?

        func validate() throws {
            let audiences = [user, device, widget].compactMap { $0 }
            guard audiences.count + (everyone ? 1 : 0) == 1 else {
                throw ValidationError("expected exactly one of --user, --device, --widget, --everyone")
            }
            for text in audiences { try Check.identifier(text, "the audience") }
            for kind in kinds { try Check.identifier(kind, "--kind") }
            if let matching { _ = try Check.configuration(matching, "--matching") }
        }

        func request(app: String, reason: ReloadReason) throws -> ReloadRequest {
            let audience: Audience
            if let user {
                audience = .user(user)
            } else if let device {
                audience = .device(device)
            } else if let widget {
                audience = .widget(widget)
            } else {
                audience = .everyone
            }
            return ReloadRequest(
                app: app, audience: audience, kinds: KindScope(names: kinds) ?? .all,
                matching: try matching.map { try Check.configuration($0, "--matching") }, reason: reason)
        }
    }

    struct Push: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "A service asks for a reload (freshet.push.received.v1).",
            discussion: """
                Examples:
                  freshet publish push --app com.example.bank --user u42 --kind RecentPurchases
                  freshet publish push --app com.example.bank --everyone
                """)

        @OptionGroup var scope: ScopeOptions
        @OptionGroup var event: EventOptions

        func run() async throws {
            try await event.publish(.push(try scope.request(app: event.app, reason: .push)))
        }
    }

    struct AppChange: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "app-change",
            abstract: "Something that widgets show has changed in the app (freshet.app.changed.v1).",
            discussion: """
                Example:
                  freshet publish app-change --app com.example.bank --user u42 --state foreground --kind DueDate
                """)

        enum State: String, ExpressibleByArgument, CaseIterable {
            case foreground, background
        }

        @Option(help: "State of the app: foreground (costs no budget) or background.")
        var state: State

        @OptionGroup var scope: ScopeOptions
        @OptionGroup var event: EventOptions

        func run() async throws {
            let reason: ReloadReason = state == .foreground ? .foreground : .background
            try await event.publish(.appChange(try scope.request(app: event.app, reason: reason)))
        }
    }

    /// `freshet publish --stdin`: a command of its own, since options of `publish` would shadow those of its subcommands.
    struct Lines: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "lines", abstract: "Publishes the events of JSON lines.", shouldDisplay: false)

        @Flag(name: .customLong("stdin"), help: "Publish the events of JSON lines on standard input.")
        var readsLines = false

        @Flag(help: "Print the counts as JSON.")
        var json = false

        @Flag(help: "Publish also events whose app or kind is not registered.")
        var noCheck = false

        @OptionGroup var settings: SettingsOptions

        func validate() throws {
            guard readsLines else { throw ValidationError("expected push, app-change, widget, or --stdin") }
        }

        func run() async throws {
            let values = try settings.load(requiring: ["kafka.bootstrapServers"]).settings
            let reader = LineReader(.standardInput, name: "standard input", maximumBytes: 4 << 20)
            let targets = try await TargetCheck.load(values, noCheck: noCheck)
            let lines = EventLines(targets: targets, now: WallClock.now)
            let counts = try await values.withPublisher { publisher in
                try await LinePublisher(lines: lines, publisher: publisher).publish(reader) { Terminal.complain($0) }
            }
            if json {
                Terminal.printLine(["published": .count(counts.published), "failed": .count(counts.failed)])
            } else {
                Terminal.print("published \(counts.published) events, \(counts.failed) failed")
            }
            if let error = counts.unavailable { throw error }
            guard counts.failed == 0 else { throw CommandFailure(.failure, "not all events were published") }
        }
    }
}

enum Check {
    static func identifier(_ text: String, _ argument: String) throws {
        if let problem = Text.identifierProblem(text) { throw ValidationError("\(argument) \(problem)") }
    }

    static func configuration(_ text: String, _ argument: String) throws -> WidgetConfiguration {
        do throws(ModelError) {
            return try WidgetConfiguration(json: Array(text.utf8))
        } catch {
            throw ValidationError("\(argument)\(error.pointer): \(error.message); expected a flat JSON object")
        }
    }
}

extension Settings {
    /// Lends a publisher, and awaits the outcome of its events.
    func withPublisher<Value: Sendable>(_ body: (EventPublisher) async throws -> Value) async throws -> Value {
        try await EventPublisher.withPublisher(
            kafka: requiredKafka(), deliveryTimeout: kafka.deliveryTimeout, topics: topicNames,
            source: EventLines.source, logger: LogSettings.ofCommands, body)
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

    @OptionGroup var scope: PublishCommand.ScopeOptions
    @OptionGroup var event: PublishCommand.EventOptions

    func run() async throws {
        try await event.publish(.operatorReload(try scope.request(app: event.app, reason: .operator)))
    }
}
