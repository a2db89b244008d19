// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import Hummingbird
import JSON
import KafkaClient
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Routes that publish CloudEvents, for producers without Kafka, that request reloads, and that return the outcomes of
/// events.
extension Routes {
    var eventRoutes: [APIRoute] {
        [
            APIRoute("publishEvents", .post, "events", .own(.publish), query: ["wait"], handle: publish),
            APIRoute("getEvent", .get, "events/{event}", .own(.widgetsRead), query: ["wait", "source"]) { call in
                let name = EventName(
                    app: call.app, id: try call.path("event", maximumBytes: EventDecoder.maximumAttributeBytes),
                    source: try call.identifier("source", maximumBytes: EventDecoder.maximumAttributeBytes),
                    user: call.user, isOfAnyUser: call.user == nil)
                let outcome = try await outcome(of: name, waits: try call.waitsForOutcome, for: call.caller)
                guard let outcome else { throw Problem.notFound }
                return Response(PublishedEvent(outcome).document(outcome))
            },
            APIRoute("requestReload", .post, "reloads", .own(.reload), query: ["wait"], handle: requestReload),
        ]
    }

    private static let batchType = "application/cloudevents-batch+json"
    private static let maximumBatch = 500

    // MARK: Publishing

    /// Publishes an event, like any other producer.
    ///
    /// - Parameter waits: whether the caller waits until the event is applied.
    /// - Returns: the event's position, and its outcome for a caller that waits.
    private func publish(
        _ outgoing: EventOutlet.Outgoing, key: ContentHash?, waits: Bool, for caller: Caller
    ) async throws -> (event: PublishedEvent, outcome: EventOutcome?) {
        // Registered before the event is published, so that a full waiting list refuses the request as a whole.
        let name = EventName(app: caller.app, id: outgoing.id, source: outgoing.source, user: outgoing.user)
        let watch = waits ? try watch(.poll, [.event(name)], for: caller) : nil
        guard let published = try await send([outgoing], key: key, for: caller).first?.get() else {
            throw Problem.internal
        }
        // The event is published even if the database does not answer.
        guard let watch, let outcome = try? await outcome(of: name, watch, publishedAs: published) else {
            return (published, nil)
        }
        // A repeated event reports the position of the first one.
        return (PublishedEvent(outcome), outcome)
    }

    /// Publishes an event of the API itself, if the caller may publish it. It can be applied when this returns.
    func publish(_ event: FreshetEvent, for caller: Caller) async throws {
        var latest: KindDirectory?
        try await check(event, caller, &latest)
        _ = try await publish(
            EventOutlet.Outgoing(event: event, user: caller.user), key: nil, waits: false, for: caller)
    }

    /// Publishes the event of a request, if the caller may publish it.
    ///
    /// - Parameter pointer: place of a kind in the body; nil for its place in the event.
    func publish(
        _ event: FreshetEvent, _ call: APICall, kindAt pointer: ((String) -> String)? = nil
    ) async throws -> Response {
        var latest: KindDirectory?
        try await check(event, call.caller, kindAt: pointer, &latest)
        var outgoing = EventOutlet.Outgoing(event: event, traceparent: call.traceparent, user: call.user)
        if let key = try call.idempotencyKey {
            outgoing.id = ContentHash(of: Array("\(key)".utf8) + outgoing.content).description
        }
        return try await respond(outgoing, call)
    }

    /// Publishes an event and responds with its position: `202`, or `200` with the outcome for a caller that waits for
    /// it (`wait=applied`).
    private func respond(_ outgoing: EventOutlet.Outgoing, _ call: APICall) async throws -> Response {
        let (event, outcome) = try await publish(
            outgoing, key: try call.idempotencyKey, waits: try call.waitsForOutcome, for: call.caller)
        var response = Response(event.document(outcome), outcome == nil ? .accepted : .ok)
        response.headers[.freshetPosition] = event.position
        response.headers[.location] = call.location(of: outgoing)
        return response
    }

    /// Route that publishes its body as an event, with the parameters of the path as members. The caller can wait for
    /// the outcome.
    func change(
        _ id: String, _ method: HTTPRequest.Method, _ path: String, _ type: EventType,
        _ access: APIAccess = .own(.widgetsWrite), members: [String]
    ) -> APIRoute {
        let names = path.split(separator: "/").filter { $0.hasPrefix("{") }.map { String($0.dropFirst().dropLast()) }
        return APIRoute(id, method, path, access, query: ["wait"]) { call in
            try await publish(try await EventBody(call, path: names, members: members).event(of: type), call)
        }
    }

    /// Publishes events within the app's quotas. A repeated request has no effect: its `Idempotency-Key` gives its
    /// events the same ids, and ingest ignores repeated events.
    ///
    /// - Parameter body: content that the key identifies; that of the events if nil.
    private func send(
        _ events: [EventOutlet.Outgoing], key: ContentHash?, for caller: Caller, body: [UInt8]? = nil
    ) async throws -> [Result<PublishedEvent, KafkaError>] {
        guard let outlet = resources.events else { throw Problem.eventsUnavailable }
        guard !events.isEmpty else { return [] }
        if let key {
            let request = ContentHash(
                of: body ?? events.flatMap { Array($0.id.utf8) + Array($0.source.utf8) + $0.content })
            let first = try await store.query(.claimIdempotencyKey(app: caller.app, key: key, request: request)).first
            guard first == nil || first == request else { throw Problem.keyReused }
        }
        try await caller.quotas.checkDeadLetters(of: caller.app)
        try caller.quotas.takeEvents(
            events.count, reloads: events.count { $0.event.type.topic != .widgets }, for: caller.principal)
        return await outlet.publish(events)
    }

    // MARK: Outcomes

    private func outcome(of event: EventName, waits: Bool, for caller: Caller) async throws -> EventOutcome? {
        try await outcome(of: event, waits ? watch(.poll, [.event(event)], for: caller) : nil)
    }

    /// The outcome of an event as soon as it exists; nil after the longest wait.
    ///
    /// - Parameter published: the event that has just been published. If its first message was dropped, it takes
    ///   effect.
    private func outcome(
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

    // MARK: Reloads

    /// Event type of each reason.
    private static let types: [String: EventType] = [
        "push": .pushReceived, "foreground": .appChanged, "background": .appChanged, "operator": .reloadRequested,
    ]

    /// Requests a reload. The request is published to Kafka like that of any producer.
    private func requestReload(_ call: APICall) async throws -> Response {
        var body = EventBody(try await call.body(), members: ["app", "audience", "kinds", "matching", "reason"])
        let reason = body["reason"] ?? "push"
        body["reason"] = nil
        let named = reason.stringValue.flatMap { Self.types[$0] }
        if named == nil { body.fail("reason", detail: "expected push, foreground, background or operator") }
        let type = named ?? .pushReceived
        body.bind("app", to: call.app)
        if type == .appChanged { body["state"] = reason }
        let event = try body.event(of: type)
        let asked = body["kinds"]?.arrayValue ?? []
        return try await publish(event, call) { name in "/kinds/\(asked.firstIndex(of: .string(name)) ?? 0)" }
    }

    // MARK: CloudEvents

    /// Content modes as in the HTTP protocol binding for CloudEvents 1.0.
    private func publish(_ call: APICall) async throws -> Response {
        let isBatch = call.mediaType == Self.batchType
        if isBatch, try call.waitsForOutcome {
            throw Problem.unprocessable([
                Problem.Item(detail: "a batch does not wait; ask for its events by their ids", parameter: "wait")
            ])
        }
        if isBatch { return try await publishBatch(try await call.bytes(), call) }
        let body = try await call.bytes()
        let isStructured = call.mediaType == FreshetEvent.structuredContentType
        var headers = isStructured ? [] : try call.cloudEventHeaders
        if let type = call.mediaType { headers.append(("content-type", type)) }
        var latest: KindDirectory?
        let decoded: DecodedEvent
        do throws(EventError) {
            decoded = try EventDecoder().decode(body, headers: headers)
        } catch {
            let type = headers.last { $0.name == "ce_type" }.flatMap { EventType(rawValue: $0.value) }
            throw Problem(
                error.overHTTP,
                among: isStructured
                    ? EventDecoder().problems(structured: body, in: 0..<body.count)
                    : type.map { EventDecoder().problems(data: body, of: $0) } ?? [])
        }
        let outgoing = try await outgoing(decoded, call, &latest, data: isStructured ? "/data" : "")
        return try await respond(outgoing, call)
    }

    /// An event of a batch.
    private static func decode(_ item: Range<Int>, in body: [UInt8]) throws(Problem) -> DecodedEvent {
        do throws(EventError) {
            return try EventDecoder().decode(structured: body, in: item)
        } catch {
            throw Problem(error, among: EventDecoder().problems(structured: body, in: item))
        }
    }

    /// Publishes the valid events of a batch in order and returns a result for each event.
    private func publishBatch(_ body: [UInt8], _ call: APICall) async throws -> Response {
        let items = try Self.events(in: body)
        guard items.count <= Self.maximumBatch else {
            throw Problem.unprocessable(
                "", detail: "expected at most \(Self.maximumBatch) events, found \(items.count)")
        }
        try call.caller.count(requests: items.count)
        var latest: KindDirectory?
        var events: [EventOutlet.Outgoing] = []
        var problems: [Int: Problem] = [:]
        for (index, item) in items.enumerated() {
            do {
                let decoded = try Self.decode(item, in: body)
                events.append(try await outgoing(decoded, call, &latest, data: "/data"))
            } catch {
                guard let problem = Problem(explaining: error), problem.status.kind == .clientError else { throw error }
                problems[index] = problem.moved(below: "/\(index)")
            }
        }
        var published = try await send(
            events, key: try call.idempotencyKey, for: call.caller, body: body
        ).makeIterator()
        let results = items.indices.map { index -> JSONValue in
            if let problem = problems[index] { return problem.result }
            guard let result = published.next() else { return Problem.internal.result }
            switch result {
            case .success(let event):
                return event.document().adding("status", .count(HTTPResponse.Status.accepted.code))
            case .failure: return Problem.eventsUnavailable.result
            }
        }
        return Response(["results": .array(results)])
    }

    /// Places of a batch's events in the body.
    private static func events(in body: [UInt8]) throws -> [Range<Int>] {
        do {
            var reader = JSONReader(body)
            var events: [Range<Int>] = []
            let kind = try reader.peek()
            if kind == .array {
                try reader.beginArray()
                while try reader.nextElement() { events.append(try reader.skip()) }
            } else {
                try reader.skip()
            }
            try reader.finish()
            guard kind == .array else {
                throw Problem.unprocessable("", detail: "expected an array of CloudEvents, found \(kind.name)")
            }
            return events
        } catch let error as JSONError {
            throw Problem(parsing: error)
        }
    }

    /// The event to publish, if the bearer may publish it.
    ///
    /// - Parameter data: pointer to the data in the body.
    private func outgoing(
        _ decoded: DecodedEvent, _ call: APICall, _ latest: inout KindDirectory?, data: String
    ) async throws -> EventOutlet.Outgoing {
        let event = decoded.event
        do {
            guard Text.equal(event.app, call.app) else {
                throw Problem.unprocessable("/app", detail: "must equal the app in the path")
            }
            try await check(event, call.caller, &latest)
        } catch let problem as Problem {
            throw problem.moved(below: data)
        }
        return EventOutlet.Outgoing(
            event: event, id: decoded.id, source: decoded.source, time: decoded.time,
            traceparent: decoded.traceparent ?? call.traceparent, user: call.user)
    }
}

extension EventError {
    /// The error with the name of a header as HTTP spells it; the decoder names it as in Kafka.
    fileprivate var overHTTP: EventError {
        let (kafka, http) = ("header ce_", "header ce-")
        guard message.hasPrefix(kafka) else { return self }
        return EventError(code: code, message: http + message.dropFirst(kafka.count), pointer: pointer, app: app)
    }
}

extension APICall {
    /// The caller's trace context, for the event.
    fileprivate var traceparent: String? {
        HTTPField.Name("traceparent").flatMap { request.headers[$0] }.flatMap {
            $0.utf8.count <= 256 && !Text.containsControlCharacter($0) ? $0 : nil
        }
    }

    /// The attributes of a CloudEvent in binary mode, named as in Kafka.
    fileprivate var cloudEventHeaders: [(name: String, value: String)] {
        get throws(Problem) {
            var attributes: [(name: String, value: String)] = []
            for field in request.headers {
                let name = field.name.canonicalName
                guard name.hasPrefix("ce-") else { continue }
                guard let value = Self.attribute(field.value) else {
                    throw .badRequest("the header \(name) is not percent-encoded UTF-8, or its quotes do not match")
                }
                attributes.append(("ce_" + name.dropFirst("ce-".count), value))
            }
            return attributes
        }
    }

    /// The value of a header by CloudEvents' protocol binding: a text in quotes without them and the backslashes of its
    /// quoted pairs, then percent-decoded.
    private static func attribute(_ text: String) -> String? {
        guard text.hasPrefix("\"") else { return text.removingPercentEncoding }
        guard text.utf8.count > 1, text.hasSuffix("\"") else { return nil }
        var value = ""
        var isPair = false
        for character in text.unicodeScalars.dropFirst().dropLast() {
            switch character {
            case "\\" where !isPair: isPair = true
            case "\"" where !isPair: return nil
            default:
                value.unicodeScalars.append(character)
                isPair = false
            }
        }
        return isPair ? nil : value.removingPercentEncoding
    }
}

extension Problem {
    /// The problem with pointers below another place.
    fileprivate func moved(below pointer: String) -> Problem {
        var problem = self
        problem.errors = errors.map { item in
            var item = item
            item.pointer = item.pointer.map { pointer + $0 }
            return item
        }
        return problem
    }

    /// The result of an event of a batch.
    fileprivate var result: JSONValue {
        ["status": .count(status.code), "problem": document]
    }
}

extension PublishedEvent {
    fileprivate init(_ outcome: EventOutcome) {
        self.init(
            id: outcome.event, type: outcome.type, topic: outcome.topic, partition: outcome.partition,
            offset: outcome.offset)
    }

    /// The event with its outcome, if that is known.
    fileprivate func document(_ outcome: EventOutcome? = nil) -> JSONValue {
        let document: JSONValue = ["event": json]
        return outcome.map { document.adding("outcome", $0.json) } ?? document
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
    fileprivate var waitsForOutcome: Bool {
        get throws(Problem) {
            switch text("wait") {
            case nil: false
            case "applied"?: true
            default: throw .parameter("wait", detail: "expected applied")
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
