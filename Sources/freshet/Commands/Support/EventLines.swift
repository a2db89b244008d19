import FreshetClient
import FreshetService
import KafkaClient
import WidgetEvents
import WidgetModel

/// Reads events from lines of JSON: whole CloudEvents, or `{"type", "data"}` with any of `id`, `source`, `time`, `key`.
struct EventLines: Sendable {
    private let decoder = EventDecoder(maximumEventBytes: 1_048_576)
    /// Nil to accept events for any app and kind.
    var targets: TargetCheck?
    let now: @Sendable () -> Timestamp

    func event(_ line: [UInt8]) throws(LineRefused) -> OutgoingEvent {
        var document: JSONValue
        do throws(JSONError) {
            document = try JSONValue.parse(line)
        } catch {
            throw LineRefused(message: "not JSON: \(error)")
        }
        guard case .object(var object) = document else {
            throw LineRefused(message: "expected an object, found \(document.kind.name)")
        }
        guard let name = object["type"]?.stringValue else {
            throw LineRefused(message: "/type: expected the type of an event, such as freshet.push.received.v1")
        }
        guard let type = EventType(rawValue: name) else {
            let known = EventType.allCases.map(\.rawValue)
            let meant = Suggestion.word(for: name, among: known)
            throw LineRefused(message: "/type: unknown event type \(Text.quoted(name))\(meant)")
        }
        let key = object["key"]?.stringValue
        // The short form lacks attributes that have defaults.
        if object["specversion"] == nil { object["specversion"] = "1.0" }
        if object["id"] == nil { object["id"] = .string(RandomID.make()) }
        if object["source"] == nil { object["source"] = .string(Self.source) }
        document = .object(object)
        let decoded = try decode(document.encoded, type)
        // Ingest ignores a wrong time of a push; whoever writes one here wants to know.
        if let time = object["time"], decoded.envelope.time == nil {
            let found = time.stringValue.map { Text.quoted($0) } ?? time.kind.name
            throw LineRefused(message: "/time: expected a time of RFC 3339, found \(found)")
        }
        do throws(TargetCheck.Unknown) {
            try targets?.check(decoded.event)
        } catch {
            throw LineRefused(message: "/data/\(error.member): \(error.message)")
        }
        return OutgoingEvent(
            decoded.event, id: decoded.envelope.id, source: decoded.envelope.source,
            time: decoded.envelope.time ?? now(), key: key, traceparent: decoded.envelope.traceparent)
    }

    static let source = "/freshet/publish"

    private func decode(_ bytes: [UInt8], _ type: EventType) throws(LineRefused) -> DecodedEvent {
        do throws(EventError) {
            return try decoder.decode(
                bytes, headers: [("content-type", EventEncoder.structuredContentType)], topics: [type.topic])
        } catch {
            throw LineRefused(error)
        }
    }
}

extension LineRefused {
    init(_ error: EventError) {
        message = (error.pointer.map { $0.isEmpty ? "" : $0 + ": " } ?? "") + error.message
    }
}

extension EventLines {
    struct Counts: Sendable {
        var published = 0
        var failed = 0
        /// Error of an unreachable broker, which ends publishing.
        var unavailable: KafkaError?
    }

    /// - Parameter complain: called with a message for each line that fails.
    func publish(
        _ reader: LineReader, to publisher: EventPublisher, complain: (String) -> Void
    ) async throws -> Counts {
        var counts = Counts()
        let refused = try await reader.chunks(of: 500, decode: event, complain: complain) { events in
            let results = await publisher.publish(events.map(\.value))
            for (event, result) in zip(events, results) {
                switch result {
                case .success: counts.published += 1
                case .failure(let error):
                    counts.failed += 1
                    complain("line \(event.line): \(error)")
                    if error.code == .messageTimedOut || error.code == .timedOut { counts.unavailable = error }
                }
            }
            return counts.unavailable == nil
        }
        counts.failed += refused
        return counts
    }
}
