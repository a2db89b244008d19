import HTTPTypes
import Hummingbird
import JSON
import KafkaClient
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetRepresentation
import WidgetStore

extension RouteDependencies {
    /// Publishes an event and responds with its position: `202`, or `200` with the outcome for a caller that waits for
    /// it (`wait=applied`).
    func publish(_ outgoing: EventOutlet.Outgoing, for call: APICall) async throws -> Response {
        // Registered before the event is published, so that a full waiting list refuses the request as a whole.
        let name = EventName(app: call.app, id: outgoing.id, source: outgoing.source, user: outgoing.user)
        let watch = try call.waitsForOutcome ? watch(.poll, [.event(name)], for: call) : nil
        guard let published = try await send([outgoing], for: call).first?.get() else { throw Problem.internal }
        var outcome: EventOutcome?
        if let watch {
            // The event is published even if the database does not answer.
            outcome = try? await self.outcome(of: name, watch, publishedAs: published)
        }
        // A repeated event reports the position of the first one.
        let shown = outcome.map { PublishedEvent($0) } ?? published
        var response = Response(.object(shown.document(outcome)), outcome == nil ? .accepted : .ok)
        response.headers[.freshetPosition] = shown.position
        response.headers[.location] = call.location(of: outgoing)
        return response
    }

    /// Publishes an event of the API itself, if the bearer may publish it.
    ///
    /// - Parameter pointer: place of a kind in the body; nil for its place in the event.
    func publish(
        _ event: FreshetEvent, for call: APICall, kindAt pointer: ((String) -> String)? = nil
    ) async throws -> Response {
        var rules = EventRules(parts: self)
        try await rules.check(event, call, kindAt: pointer)
        var outgoing = EventOutlet.Outgoing(event: event, traceparent: call.traceparent, user: call.user)
        if let key = try call.idempotencyKey {
            outgoing.id = ContentHash(of: Array("\(key)".utf8) + outgoing.content).description
        }
        return try await publish(outgoing, for: call)
    }

    /// Route that publishes its body as an event, with the parameters of the path as members. The caller can wait for
    /// the outcome.
    func change(
        _ id: String, _ method: HTTPRequest.Method, _ path: String, _ type: EventType,
        _ access: APIAccess = .own(.widgetsWrite), members: [String]
    ) -> APIRoute {
        let names = path.split(separator: "/").filter { $0.hasPrefix("{") }.map { String($0.dropFirst().dropLast()) }
        return APIRoute(id, method, path, access, query: ["wait"]) { call in
            try await publish(try await EventBody(call, path: names, members: members).event(of: type), for: call)
        }
    }

    /// Publishes events within the app's quotas. A repeated request has no effect: its `Idempotency-Key` gives its
    /// events the same ids, and ingest ignores repeated events.
    ///
    /// - Parameter body: content that the key identifies; that of the events if nil.
    func send(
        _ events: [EventOutlet.Outgoing], for call: APICall, body: [UInt8]? = nil
    ) async throws -> [Result<PublishedEvent, KafkaError>] {
        let outlet = try outlet()
        guard !events.isEmpty else { return [] }
        if let key = try call.idempotencyKey {
            let request = ContentHash(
                of: body ?? events.flatMap { Array($0.id.utf8) + Array($0.source.utf8) + $0.content })
            let first = try await store.query(.claimIdempotencyKey(app: call.app, key: key, request: request))
                .first
            guard first == nil || first == request else { throw Problem.keyReused }
        }
        try await call.quotas.checkDeadLetters(of: call.app)
        try call.quotas.takeEvents(
            events.count, reloads: events.count { $0.event.type.topic != .widgets }, for: call.principal)
        return await outlet.publish(events)
    }

    /// Registers a waiter within the app's quota.
    func watch(
        _ mode: TimelineChanges.Mode, _ keys: Set<TimelineChanges.Key>, for call: APICall
    ) throws(Problem) -> TimelineChanges.Watch {
        do throws(TimelineChanges.Refusal) {
            return try changes.watch(mode, keys, for: TimelineChanges.Holder(app: call.app, user: call.user))
        } catch {
            throw error == .quota ? call.quotas.refusal(.connections, .seconds(5)) : .tooManyWaiting
        }
    }

    /// The outcome of an event as soon as it exists; nil after the longest wait.
    ///
    /// - Parameter published: the event that has just been published. If its first message was dropped, it takes
    ///   effect.
    func outcome(
        of event: EventName, _ watch: TimelineChanges.Watch?, publishedAs published: PublishedEvent? = nil
    ) async throws -> EventOutcome? {
        let deadline = ContinuousClock.now + outcomeWait
        while true {
            if let found = try await store.query(.readEventOutcome(event)).first,
                found.code != EventOutcome.dropped || published.map({ $0 == PublishedEvent(found) }) ?? true
            {
                return found
            }
            let left = ContinuousClock.now.duration(to: deadline)
            guard let watch, left > .zero, await watch.wait(atMost: left) == .changed else { return nil }
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
        ["result": .string(result.rawValue), "code": .text(code), "detail": .text(detail), "pointer": .text(pointer)]
    }
}

extension HTTPField.Name {
    static let freshetPosition = Self("Freshet-Position")!
    static let idempotencyKey = Self("Idempotency-Key")!
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

    /// Hash of the `Idempotency-Key` of a POST request with its app and user. Other methods are idempotent without a
    /// key.
    fileprivate var idempotencyKey: ContentHash? {
        get throws(Problem) {
            guard request.method == .post, let key = request.headers[.idempotencyKey] else { return nil }
            guard (1...255).contains(key.utf8.count), key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                throw .badRequest("Idempotency-Key: expected 1 to 255 bytes of printable ASCII without spaces")
            }
            return ContentHash(of: JSONValue.array([.string(app), .text(user), .string(key)]).encoded)
        }
    }

    /// Base path of the app.
    var base: String { "/v1/apps/\(Text.percentEncoded(app))" }

    fileprivate func location(of event: EventOutlet.Outgoing) -> String {
        let source = event.source == EventOutlet.source ? "" : "?source=\(Text.percentEncoded(event.source))"
        return "\(base)/events/\(Text.percentEncoded(event.id))\(source)"
    }
}
