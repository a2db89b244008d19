import KafkaClient
public import Logging
public import ServiceLifecycle
import Synchronization
import WidgetEvents
import WidgetModel

/// Tells Freshet what happened in one app: which widgets there are, and which timelines are stale.
///
/// Every call returns when Kafka's brokers have acknowledged the event, so what was announced is not lost. Calls may
/// run side by side, and share requests to the brokers; those that concern one widget take effect in the order of
/// their dates.
///
/// ```swift
/// let center = try WidgetCenter(
///     app: "com.example.bank",
///     configuration: WidgetCenterConfiguration(bootstrapServers: "kafka:9092", source: "/bank/payments"),
///     logger: logger)
/// try await center.reloadTimelines(ofKind: "RecentPurchases", for: .user("u42"), matching: ["card": "acme"])
/// ```
///
/// A center is a `Service`: put it in front of the services that use it in a `ServiceGroup`, which stops them in the
/// reverse order, and what they have announced is delivered before the program ends. Without a group, call
/// ``shutdown()``.
public final class WidgetCenter: Service {
    /// The app's bundle identifier.
    public let app: String

    private let producer: KafkaProducer
    private let publisher: EventPublisher
    private let backPressure: WidgetCenterConfiguration.BackPressure
    private let shutdownTimeout: Duration
    private let admission: Mutex<Admission>

    /// Connects in the background; brokers that cannot be reached show in the first call.
    public init(
        app: String, configuration: WidgetCenterConfiguration, logger: Logger
    ) throws(WidgetCenterError) {
        try WidgetEvent.check(app, "app")
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
            topics: EventTopicNames(pushes: topics.pushes, appChanges: topics.appChanges, widgets: topics.widgets),
            source: configuration.source)
    }

    // MARK: Publishing

    /// Publishes one event.
    ///
    /// Cancelling the task takes the event back while it waits for room; once it is on its way, the call goes on to its
    /// outcome.
    @discardableResult
    public func publish(_ event: WidgetEvent) async throws(WidgetCenterError) -> PublishedEvent {
        // One event in, one out.
        try await publish([event])[0]
    }

    /// Publishes events in one go, which takes about as long as one of them.
    ///
    /// - Returns: where each is stored, in the events' order.
    /// - Throws: `invalidArgument` if one of them cannot be published; then none was sent. Else, if some were not
    ///   acknowledged, the first one's error, whose ``WidgetCenterError/failedEvents`` names them all: publish only
    ///   those again.
    @discardableResult
    public func publish(_ events: [WidgetEvent]) async throws(WidgetCenterError) -> [PublishedEvent] {
        guard !events.isEmpty else { return [] }
        let outgoing = try checked(events)
        switch backPressure {
        case .suspend: admission.withLock { $0.add(events.count) }
        case .fail:
            guard admission.withLock({ $0.admit(events.count) }) else {
                throw WidgetCenterError(
                    .overloaded, "there are as many events under way as are allowed", isRetriable: true,
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
                        id: events[index].id, topic: publisher.topic(of: outgoing[index]),
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

    /// How many events were given to ``publish(_:)-([WidgetEvent])`` and its like, and have no outcome yet.
    public var eventsUnderWay: Int { admission.withLock { $0.underWay } }

    // MARK: End

    /// Returns when every event that was published before the call is acknowledged or has failed.
    public func flush() async {
        await producer.flush()
    }

    /// Takes no more events, waits until those under way are acknowledged, for
    /// ``WidgetCenterConfiguration/shutdownTimeout`` at most, and closes the connections. Calls whose events are not
    /// acknowledged by then fail. Calling it again only waits.
    public func shutdown() async {
        await producer.shutdown(within: shutdownTimeout)
    }

    /// Waits for graceful shutdown or cancellation, and does ``shutdown()`` then.
    public func run() async throws {
        try? await gracefulShutdown()
        await shutdown()
    }
}
