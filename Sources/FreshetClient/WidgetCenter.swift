import JSON
import KafkaClient
public import Logging
public import ServiceLifecycle
import Synchronization
import WidgetEvents
import WidgetModel

/// Publishes the events of one app to Freshet: placed widgets and stale timelines.
///
/// A call returns when Kafka's brokers have acknowledged the event, so it is not lost. Concurrent calls share requests
/// to the brokers. Events of one widget take effect in the order of their dates.
///
/// ```swift
/// let center = try WidgetCenter(
///     app: "com.example.bank",
///     configuration: WidgetCenterConfiguration(bootstrapServers: "kafka:9092", source: "/bank/payments"),
///     logger: logger)
/// try await center.reloadTimelines(ofKind: "RecentPurchases", for: .user("u42"), matching: ["card": "acme"])
/// ```
///
/// A center is a `Service`. Put it before the services that use it in a `ServiceGroup`, which stops services in reverse
/// order, so that their events are delivered before the program ends. Without a group, call ``shutdown()``.
public final class WidgetCenter: Service {
    /// The app's bundle identifier.
    public let app: String

    private let producer: KafkaProducer
    private let publisher: EventPublisher
    private let backPressure: WidgetCenterConfiguration.BackPressure
    private let shutdownTimeout: Duration
    private let admission: Mutex<Admission>

    /// Limit on the number of events under way.
    struct Admission {
        let limit: Int
        private(set) var underWay = 0

        /// Admits all events of a call if there is room. A call with more events than the limit is admitted when no
        /// others are under way.
        mutating func admit(_ count: Int) -> Bool {
            guard underWay == 0 || underWay <= limit - count else { return false }
            underWay += count
            return true
        }

        /// Adds events regardless of the limit.
        mutating func add(_ count: Int) { underWay += count }

        mutating func finish(_ count: Int) { underWay -= count }
    }

    /// Connects in the background. The first call fails if the brokers cannot be reached.
    public init(app: String, configuration: WidgetCenterConfiguration, logger: Logger) throws(WidgetCenterError) {
        if let problem = Text.identifierProblem(app) { throw WidgetCenterError(.invalidArgument, "app \(problem)") }
        try configuration.check()
        self.app = app
        backPressure = configuration.backPressure
        shutdownTimeout = configuration.shutdownTimeout
        admission = Mutex(Admission(limit: configuration.maximumEventsUnderWay))
        do throws(KafkaError) {
            producer = try KafkaProducer(
                configuration: KafkaConfiguration(
                    bootstrapServers: configuration.bootstrapServers, properties: configuration.properties),
                deliveryTimeout: configuration.deliveryTimeout,
                maximumQueuedMessages: configuration.maximumEventsUnderWay,
                maximumQueuedBytes: configuration.maximumBytesUnderWay, logger: logger)
        } catch {
            throw WidgetCenterError(error)
        }
        let topics = configuration.topics
        publisher = EventPublisher(
            producer: producer,
            topics: [
                .pushes: topics.pushes, .appChanges: topics.appChanges, .widgets: topics.widgets,
                .donations: topics.donations,
            ],
            source: configuration.source)
    }

    // MARK: Publishing

    /// Requests new timelines of one kind; see ``WidgetEvent/reloadTimelines(ofKind:for:matching:)``.
    @discardableResult
    public func reloadTimelines(
        ofKind kind: String, for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.reloadTimelines(ofKind: kind, for: audience, matching: values))
    }

    /// Requests new timelines of all kinds of the app; see ``WidgetEvent/reloadAllTimelines(for:matching:)``.
    @discardableResult
    public func reloadAllTimelines(
        for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.reloadAllTimelines(for: audience, matching: values))
    }

    /// Publishes one event.
    ///
    /// Cancellation withdraws the event while it waits for room. Once it is sent, the call waits for its outcome.
    @discardableResult
    public func publish(_ event: WidgetEvent) async throws(WidgetCenterError) -> PublishedEvent {
        // The array has one element.
        try await publish([event])[0]
    }

    /// Publishes events together, which takes about as long as one event.
    ///
    /// - Returns: the stored events, in order.
    /// - Throws: `invalidArgument` if an event cannot be published; then none was sent. If some were not acknowledged,
    ///   the first one's error. Its ``WidgetCenterError/failedEvents`` are the events to publish again.
    @discardableResult
    public func publish(_ events: [WidgetEvent]) async throws(WidgetCenterError) -> [PublishedEvent] {
        guard !events.isEmpty else { return [] }
        let outgoing = try checked(events)
        switch backPressure {
        case .suspend: admission.withLock { $0.add(events.count) }
        case .fail:
            guard admission.withLock({ $0.admit(events.count) }) else {
                throw WidgetCenterError(
                    .overloaded, "as many events as allowed are under way", isRetriable: true,
                    failedEvents: Array(events.indices))
            }
        }
        let results = await publisher.publish(outgoing)
        admission.withLock { $0.finish(events.count) }
        var published: [PublishedEvent] = []
        published.reserveCapacity(events.count)
        var failures: [(index: Int, error: KafkaError)] = []
        for (index, result) in results.enumerated() {
            switch result {
            case .success(let delivery):
                published.append(
                    PublishedEvent(
                        id: events[index].id, topic: publisher.topic(of: outgoing[index].event),
                        partition: Int(delivery.partition), offset: delivery.offset))
            case .failure(let error): failures.append((index, error))
            }
        }
        if let first = failures.first {
            throw WidgetCenterError(first.error, failedEvents: failures.map(\.index))
        }
        return published
    }

    private func checked(_ events: [WidgetEvent]) throws(WidgetCenterError) -> [OutgoingEvent] {
        let traceparent = TraceContext.traceparent()
        var outgoing: [OutgoingEvent] = []
        outgoing.reserveCapacity(events.count)
        for (index, event) in events.enumerated() {
            do throws(WidgetCenterError) {
                outgoing.append(try event.outgoing(app: app, traceparent: traceparent))
            } catch {
                throw error.ofEvent(index, of: events.count)
            }
        }
        return outgoing
    }

    /// Number of events without an outcome yet.
    public var eventsUnderWay: Int { admission.withLock { $0.underWay } }

    // MARK: End

    /// Returns when every event that was published before the call is acknowledged or has failed.
    public func flush() async {
        await producer.flush()
    }

    /// Refuses further events, waits for the events under way for at most
    /// ``WidgetCenterConfiguration/shutdownTimeout``, and closes the connections. Calls whose events are not
    /// acknowledged by then fail.
    public func shutdown() async {
        await producer.shutdown(within: shutdownTimeout)
    }

    /// Waits for graceful shutdown or cancellation, then calls ``shutdown()``.
    public func run() async throws {
        try? await gracefulShutdown()
        await shutdown()
    }
}

/// An event that the brokers have stored.
public struct PublishedEvent: Hashable, Sendable {
    /// The event's id, as in `freshet explain` and traces.
    public let id: String
    public let topic: String
    public let partition: Int
    /// Nil in the rare case that the brokers' answer was lost and a later one shows that the event is stored.
    public let offset: Int64?
}
