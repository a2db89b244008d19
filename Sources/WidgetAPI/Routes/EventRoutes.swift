import Foundation
import HTTPTypes
import Hummingbird
import JSON
import WidgetEvents
import WidgetModel
import WidgetStore

/// Routes that publish CloudEvents, for producers without Kafka, and return the outcomes of events.
extension RouteDependencies {
    var eventRoutes: [APIRoute] {
        [
            APIRoute("publishEvents", .post, "events", .own(.publish), query: ["wait"], handle: publish),
            APIRoute("getEvent", .get, "events/{event}", .own(.widgetsRead), query: ["wait", "source"], handle: get),
        ]
    }

    private static let batchType = "application/cloudevents-batch+json"
    private static let maximumBatch = 500

    private func get(_ call: APICall) async throws -> Response {
        let event = EventName(
            app: call.app, id: try call.path("event", maximumBytes: EventDecoder.maximumAttributeBytes),
            source: try call.identifier("source", maximumBytes: EventDecoder.maximumAttributeBytes),
            user: call.user, isOfAnyUser: call.user == nil)
        let watch = try call.waitsForOutcome ? watch(.poll, [.event(event)], for: call) : nil
        guard let outcome = try await outcome(of: event, watch) else { throw Problem.notFound }
        return Response(.object(PublishedEvent(outcome).document(outcome)))
    }

    // MARK: Publishing

    /// Content modes as in the HTTP protocol binding for CloudEvents 1.0.
    private func publish(_ call: APICall) async throws -> Response {
        let isBatch = call.mediaType == Self.batchType
        if isBatch, try call.waitsForOutcome {
            throw Problem.unprocessable([
                Problem.Item(detail: "a batch does not wait; ask for its events by their ids", parameter: "wait")
            ])
        }
        if isBatch { return try await publishBatch(try await call.json(), call) }
        let body = try await call.bytes()
        let isStructured = call.mediaType == EventEncoder.structuredContentType
        var headers = isStructured ? [] : try call.cloudEventHeaders
        if let type = call.mediaType { headers.append(("content-type", type)) }
        var rules = EventRules(parts: self)
        let decoded = try EventDecoder().decode(body, headers: headers)
        let outgoing = try await outgoing(decoded, call, &rules, data: isStructured ? "/data" : "")
        return try await publish(outgoing, for: call)
    }

    /// Publishes the valid events of a batch in order and returns a result for each event.
    private func publishBatch(_ value: JSONValue, _ call: APICall) async throws -> Response {
        guard case .array(let items) = value else {
            throw Problem.unprocessable("", "expected an array of CloudEvents, found \(value.kind.name)")
        }
        guard items.count <= Self.maximumBatch else {
            throw Problem.unprocessable("", "expected at most \(Self.maximumBatch) events, found \(items.count)")
        }
        try call.counts(as: items.count)
        var rules = EventRules(parts: self)
        var events: [EventOutlet.Outgoing] = []
        var problems: [Int: Problem] = [:]
        for (index, item) in items.enumerated() {
            do {
                let decoded = try EventDecoder().decode(
                    item.encoded, headers: [("content-type", EventEncoder.structuredContentType)])
                events.append(try await outgoing(decoded, call, &rules, data: "/data"))
            } catch {
                guard let problem = Problem(explaining: error), problem.status.kind == .clientError else { throw error }
                problems[index] = problem.moved(below: "/\(index)")
            }
        }
        var published = try await send(events, for: call, body: value.encoded).makeIterator()
        let results = items.indices.map { index -> JSONValue in
            if let problem = problems[index] { return problem.result }
            guard let result = published.next() else { return Problem.internal.result }
            switch result {
            case .success(let event):
                var object = event.document()
                object["status"] = .count(HTTPResponse.Status.accepted.code)
                return .object(object)
            case .failure: return Problem.eventsUnavailable.result
            }
        }
        return Response(["results": .array(results)])
    }

    /// The event to publish, if the bearer may publish it.
    ///
    /// - Parameter data: pointer to the data in the body.
    private func outgoing(
        _ decoded: DecodedEvent, _ call: APICall, _ rules: inout EventRules, data: String
    ) async throws -> EventOutlet.Outgoing {
        let (event, envelope) = (decoded.event, decoded.envelope)
        do {
            guard Text.equal(event.app, call.app) else {
                throw Problem.unprocessable("/app", "must equal the app in the path")
            }
            try await rules.check(event, call)
        } catch let problem as Problem {
            throw problem.moved(below: data)
        }
        return EventOutlet.Outgoing(
            event: event, id: envelope.id, source: envelope.source, time: envelope.time,
            traceparent: envelope.traceparent ?? call.traceparent, user: call.user)
    }
}

extension APICall {
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
