// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
public import Logging
public import ServiceLifecycle
import Synchronization
import Tracing
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
    private let maximumEventsUnderWay: Int
    private let underWay = Mutex(0)

    /// Connects in the background. The first call fails if the brokers cannot be reached.
    public init(app: String, configuration: WidgetCenterConfiguration, logger: Logger) throws(WidgetCenterError) {
        if let problem = Text.identifierProblem(app) { throw WidgetCenterError(.invalidArgument, "app \(problem)") }
        try configuration.check()
        self.app = app
        backPressure = configuration.backPressure
        shutdownTimeout = configuration.shutdownTimeout
        maximumEventsUnderWay = configuration.maximumEventsUnderWay
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
        let isAdmitted = underWay.withLock { underWay in
            // Events that wait for room are under way as well.
            guard
                backPressure == .suspend
                    || Self.hasRoom(for: events.count, besides: underWay, limit: maximumEventsUnderWay)
            else { return false }
            underWay += events.count
            return true
        }
        guard isAdmitted else {
            throw WidgetCenterError(
                .overloaded, "as many events as allowed are under way", isRetriable: true,
                failedEvents: Array(events.indices))
        }
        let results = await publisher.publish(outgoing)
        underWay.withLock { $0 -= events.count }
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

    /// Whether a call may publish its events now: all of them fit under the limit, or no other events are under way. So
    /// a call with more events than the limit is admitted alone.
    static func hasRoom(for count: Int, besides underWay: Int, limit: Int) -> Bool {
        underWay == 0 || underWay <= limit - count
    }

    private func checked(_ events: [WidgetEvent]) throws(WidgetCenterError) -> [OutgoingEvent] {
        let traceparent = Self.traceparent
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

    /// The W3C `traceparent` from the task's context and the bootstrapped instrument; nil without either.
    private static var traceparent: String? {
        guard let context = ServiceContext.current else { return nil }
        var traceparent: String?
        InstrumentationSystem.instrument.inject(context, into: &traceparent, using: TraceparentInjector())
        return traceparent
    }

    /// Number of events without an outcome yet.
    public var eventsUnderWay: Int { underWay.withLock { $0 } }

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

private struct TraceparentInjector: Injector {
    /// Longest `traceparent`. Version 0 has 55 bytes; later versions may have more.
    private static var maximumBytes: Int { 256 }

    func inject(_ value: String, forKey key: String, into traceparent: inout String?) {
        guard key.lowercased() == "traceparent", value.utf8.count <= Self.maximumBytes else { return }
        traceparent = value
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
