import KafkaClient
public import Logging
import WidgetEvents
import WidgetModel

/// Tells Freshet what happened in one app: which widgets there are, and which timelines are stale.
///
/// Every call returns when Kafka's brokers have acknowledged the event, so what was announced is not lost. Calls may
/// run side by side; those that concern one widget take effect in the order of their times.
///
/// ```swift
/// let center = try WidgetCenter(
///     app: "com.example.bank",
///     configuration: WidgetCenterConfiguration(bootstrapServers: "kafka:9092", source: "/bank/payments"),
///     logger: logger)
/// try await center.reloadTimelines(ofKind: "RecentPurchases", for: .user("u42"), matching: ["card": "acme"])
/// ```
public final class WidgetCenter: Sendable {
    /// The app's bundle identifier.
    public let app: String

    private let producer: KafkaProducer
    private let publisher: EventPublisher

    /// Connects in the background; brokers that cannot be reached show in the first call.
    public init(
        app: String, configuration: WidgetCenterConfiguration, logger: Logger
    ) throws(WidgetCenterError) {
        try Self.check(app, "app")
        self.app = app
        do throws(KafkaError) {
            producer = try KafkaProducer(
                configuration: KafkaConfiguration(
                    bootstrapServers: configuration.bootstrapServers, properties: configuration.properties),
                deliveryTimeout: configuration.deliveryTimeout, logger: logger)
        } catch {
            throw WidgetCenterError(error)
        }
        let topics = configuration.topics
        publisher = EventPublisher(
            producer: producer,
            topics: EventTopicNames(pushes: topics.pushes, appChanges: topics.appChanges, widgets: topics.widgets),
            source: configuration.source)
    }

    /// Finishes what is under way and closes the connections.
    public func shutdown() async {
        await producer.shutdown()
    }

    // MARK: Reloads

    /// Asks for new timelines of one kind.
    ///
    /// - Parameter values: reloads only widgets whose configuration has these values; all when empty.
    public func reloadTimelines(
        ofKind kind: String, for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) {
        try await reloadTimelines(ofKinds: [kind], for: audience, matching: values)
    }

    /// Asks for new timelines of several kinds, of which there must be one at least.
    public func reloadTimelines(
        ofKinds kinds: [String], for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) {
        try await publish(.push(request(scope(kinds), audience, values, .push)))
    }

    /// Asks for new timelines of all kinds of the app.
    public func reloadAllTimelines(
        for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) {
        try await publish(.push(request(.all, audience, values, .push)))
    }

    /// Says that something that widgets show has changed in the app itself.
    ///
    /// - Parameter kinds: that show it; nil means all.
    public func appChanged(
        _ state: AppState, for audience: Audience, kinds: [String]? = nil, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) {
        let scope = if let kinds { try scope(kinds) } else { KindScope.all }
        let reason: ReloadReason = state == .foreground ? .foreground : .background
        try await publish(.appChange(request(scope, audience, values, reason)))
    }

    /// Asks for new timelines as the app's operators do: nothing holds the reload back, neither budget nor spacing. For
    /// their tools only; what happens in the app is for the other calls to tell.
    ///
    /// - Parameter kinds: that are reloaded; nil means all.
    public func requestReload(
        for audience: Audience, kinds: [String]? = nil, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) {
        let scope = if let kinds { try scope(kinds) } else { KindScope.all }
        try await publish(.operatorReload(request(scope, audience, values, .operator)))
    }

    // MARK: Widgets

    public func widgetPlaced(_ widget: Widget) async throws(WidgetCenterError) {
        for (text, argument) in [
            (widget.id, "widget.id"), (widget.user, "widget.user"), (widget.device, "widget.device"),
            (widget.kind, "widget.kind"),
        ] {
            try Self.check(text, argument)
        }
        let placement = WidgetPlacement(
            app: app, widget: widget.id, user: widget.user, device: widget.device, kind: widget.kind,
            family: widget.family.model, configuration: try widget.configuration.configuration("configuration"),
            environment: try widget.environment.model())
        try await publish(.placed(placement))
    }

    /// - Parameter user: whose widget it is, so that the event stays in order behind the placement.
    public func widgetConfigured(
        _ widget: String, of user: String, configuration: [String: Value]
    ) async throws(WidgetCenterError) {
        try Self.check(widget, "widget")
        let configuration = try configuration.configuration("configuration")
        try await publish(.configured(app: app, widget: widget, configuration: configuration), of: user)
    }

    public func widgetRemoved(_ widget: String, of user: String) async throws(WidgetCenterError) {
        try Self.check(widget, "widget")
        try await publish(.removed(app: app, widget: widget), of: user)
    }

    public func widgetViewed(_ widget: String, of user: String) async throws(WidgetCenterError) {
        try Self.check(widget, "widget")
        try await publish(.viewed(app: app, widget: widget), of: user)
    }

    /// - Parameter significantTimeChange: midnight passed, or the clock or the time zone was set.
    public func environmentChanged(
        ofDevice device: String, of user: String, to environment: Environment, significantTimeChange: Bool = false
    ) async throws(WidgetCenterError) {
        try Self.check(device, "device")
        try await publish(
            .environmentChanged(
                app: app, device: device, environment: try environment.model(),
                significantTimeChange: significantTimeChange),
            of: user)
    }

    // MARK: -

    private func publish(_ event: FreshetEvent, of user: String? = nil) async throws(WidgetCenterError) {
        if let user { try Self.check(user, "user") }
        do throws(KafkaError) {
            _ = try await publisher.publish(OutgoingEvent(event, time: WallClock.now(), key: user))
        } catch {
            throw WidgetCenterError(error)
        }
    }

    private func scope(_ kinds: [String]) throws(WidgetCenterError) -> KindScope {
        for kind in kinds { try Self.check(kind, "kind") }
        guard let scope = KindScope(names: kinds) else {
            throw WidgetCenterError(.invalidArgument, "kinds: expected at least one")
        }
        return scope
    }

    private func request(
        _ kinds: KindScope, _ audience: Audience, _ values: [String: Value], _ reason: ReloadReason
    ) throws(WidgetCenterError) -> ReloadRequest {
        let model: WidgetModel.Audience =
            switch audience {
            case .user(let id): .user(id)
            case .device(let id): .device(id)
            case .widget(let id): .widget(id)
            case .everyone: .everyone
            }
        if let identifier = model.identifier { try Self.check(identifier, "audience") }
        let matching = values.isEmpty ? nil : try values.configuration("matching")
        return ReloadRequest(app: app, audience: model, kinds: kinds, matching: matching, reason: reason)
    }

    private static func check(_ text: String, _ argument: String) throws(WidgetCenterError) {
        if let problem = Text.identifierProblem(text) {
            throw WidgetCenterError(.invalidArgument, "\(argument) \(problem)")
        }
    }
}
