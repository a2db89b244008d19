import HTTPTypes
import Hummingbird
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetRepresentation
import WidgetStore

extension APIParts {
    /// Publishes an event of a bearer, and answers with its position: `202`, or `200` with the outcome for a caller that waits
    /// for it (`wait=applied`).
    func publish(_ outgoing: EventOutlet.Outgoing, for call: APICall) async throws -> Response {
        let outlet = try outlet()
        // Before the event is published, so that a caller without a place does not have to guess.
        let watch = try call.waitsForOutcome ? watch(outgoing.id, for: call) : nil
        guard let published = try await outlet.publish([outgoing]).first?.get() else { throw Problem.internal }
        var outcome: EventOutcome?
        if let watch {
            // The event is published, whether the database answers or not.
            outcome = try? await self.outcome(of: outgoing.id, at: published, for: call, watch)
        }
        var response = JSONValue.object(published.document(outcome)).response(outcome == nil ? .accepted : .ok)
        response.headers[.freshetPosition] = published.position
        response.headers[.location] = call.location(ofEvent: outgoing.id)
        return response
    }

    /// Publishes an event of the API itself.
    func publish(_ event: FreshetEvent, for call: APICall) async throws -> Response {
        try await publish(
            EventOutlet.Outgoing(event: event, traceparent: call.traceparent, user: call.user), for: call)
    }

    /// Registers a waiter for an outcome.
    func watch(_ event: String, for call: APICall) throws(Problem) -> TimelineChanges.Watch {
        let key = TimelineChanges.Key.event(app: call.app, id: event, user: call.user)
        guard let watch = changes.watch(.poll, [key], for: call.holder) else { throw .tooManyWaiting }
        return watch
    }

    /// The outcome of an event once there is one; nil if there is none in time.
    ///
    /// - Parameter published: position of the event; an outcome of an earlier event with the same id does not count.
    func outcome(
        of event: String, at published: PublishedEvent? = nil, for call: APICall, _ watch: TimelineChanges.Watch?
    ) async throws -> EventOutcome? {
        let deadline = ContinuousClock.now + outcomeWait
        while true {
            let statement = Statements.readEventOutcome(app: call.app, event: event, user: call.user)
            if let found = try await store.pool.query(statement).first,
                published.map({ $0 == PublishedEvent(found) }) ?? true
            {
                return found
            }
            let left = ContinuousClock.now.duration(to: deadline)
            guard let watch, left > .zero, await watch.wait(atMost: left) == .changed else { return nil }
        }
    }
}

/// Looks for the outcomes that requests wait for: one statement for all of them, while there are any.
struct OutcomePoll: Sendable {
    let pool: PostgresPool
    let changes: TimelineChanges
    var interval = Duration.milliseconds(50)

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            let mark = changes.eventsAwaited.mark(.timelines)
            let events = changes.awaitedEvents
            guard !events.isEmpty else {
                try? await changes.eventsAwaited.wait(past: mark)
                continue
            }
            if let found = try? await pool.query(.findEventOutcomes(events)) {
                changes.changed(found.map { .event(app: $0.app, id: $0.id, user: $0.user) })
            }
            try? await Task.sleep(for: interval)
        }
    }
}

extension PublishedEvent {
    init(_ outcome: EventOutcome) {
        self.init(
            id: outcome.event, type: outcome.type, topic: outcome.topic, partition: outcome.partition,
            offset: outcome.offset)
    }

    /// The event with its outcome, if that is known.
    func document(_ outcome: EventOutcome? = nil) -> JSONObject {
        var object = JSONObject()
        object["event"] = json
        if let outcome { object["outcome"] = outcome.json }
        return object
    }
}

extension EventOutcome {
    fileprivate var json: JSONValue {
        [
            "result": .string(result.rawValue), "code": .text(code), "detail": .text(detail), "pointer": .text(pointer),
        ]
    }
}

extension HTTPField.Name {
    static let freshetPosition = Self("Freshet-Position")!
}

extension APICall {
    /// Whether the caller waits until the event has been applied.
    var waitsForOutcome: Bool {
        get throws(Problem) {
            switch text("wait") {
            case nil: false
            case "applied"?: true
            default: throw .parameter("wait", "expected applied")
            }
        }
    }

    fileprivate func location(ofEvent id: String) -> String {
        func escaped(_ text: String) -> String {
            text.utf8.map { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: String(UnicodeScalar(byte))
                default: (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
                }
            }.joined()
        }
        return "/v1/apps/\(escaped(app))/events/\(escaped(id))"
    }
}
