import ArgumentParser
import FreshetClient
import FreshetService
import KafkaClient
import WidgetEvents
import WidgetModel

/// Attributes of a published event, and the settings of publishing.
struct EventOptions: ParsableArguments {
    @Option(help: "Time of the event (RFC 3339); now by default.", transform: OptionText.time)
    var time: Timestamp?

    @Option(help: "Id of the event; random by default.")
    var id: String?

    @Option(help: "Source of the event, a URI reference.")
    var source = EventLines.source

    @Flag(help: "Print the position of the event, or the counts of events, as JSON.")
    var json = false

    @Flag(help: "Publish also if the app or the kind is not registered, and do not wait for the effect of a change.")
    var noCheck = false

    @OptionGroup var settings: SettingsOptions

    /// Publishes an event; waits for the effect of a change if a database is configured.
    ///
    /// - Throws: `CommandFailure` if the change has no effect.
    func publish(_ event: FreshetEvent, key: String? = nil) async throws {
        var outgoing = OutgoingEvent(
            event, id: id ?? RandomID.make(), source: source, time: time ?? WallClock.now(), key: key)
        let values = try settings.load(requiring: ["kafka.bootstrapServers"]).settings
        let waits = event.type.topic == .widgets && !noCheck && values.postgres.url != nil
        outgoing.handling.keepsOutcome = waits
        do {
            try await TargetCheck.load(values, noCheck: noCheck)?.check(event)
        } catch let unknown as TargetCheck.Unknown {
            throw CommandFailure(.failure, "\(unknown.message) (--no-check publishes the event all the same)")
        }
        let (delivery, topic) = try await values.withPublisher { [outgoing] publisher in
            (try await publisher.publish(outgoing), publisher.topic(of: event))
        }
        let effect = waits ? try await ChangeEffect.wait(for: outgoing, delivery, values) : nil
        if json {
            var members: JSONObject = [
                "id": .string(outgoing.id), "topic": .string(topic), "partition": .count(delivery.partition),
                "offset": .count(delivery.offset),
            ]
            if let effect { members["outcome"] = effect.json }
            Terminal.printLine(.object(members))
        } else {
            let offset = delivery.offset.map { " offset \($0)" } ?? ""
            Terminal.print("\(outgoing.id)  \(topic) partition \(delivery.partition)\(offset)")
        }
        try effect?.report()
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

/// Properties of the device that providers need.
struct DeviceEnvironment: ParsableArguments {
    @Option(help: "The device's language, BCP 47.")
    var locale = "en-US"

    @Option(help: "The device's time zone, IANA.")
    var timeZone = "Etc/UTC"

    func validate() throws {
        _ = try model()
    }

    func model() throws -> WidgetEnvironment {
        do throws(ModelError) {
            return try WidgetEnvironment(locale: locale, timeZone: timeZone)
        } catch {
            throw ValidationError(
                error.pointer == "/locale" ? "--locale: \(error.message)" : "--time-zone: \(error.message)")
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
