import JSON
internal import WidgetModel

/// Decodes CloudEvents in JSON, in binary or structured mode, from the bytes of a polled batch without copying.
///
/// Unknown members of the data and unknown extension attributes are ignored.
package struct EventDecoder: Sendable {
    package static let defaultMaximumEventBytes = 1_048_576
    /// Longest `id` or `source` of an event, in bytes.
    package static let maximumAttributeBytes = 1024

    /// Longest value, in bytes.
    package let maximumEventBytes: Int
    /// Whether the attribute `time` of events counts as absent.
    package var ignoresTimes = false

    package init(maximumEventBytes: Int = defaultMaximumEventBytes) {
        self.maximumEventBytes = maximumEventBytes
    }

    /// Decodes one message.
    ///
    /// - Parameters:
    ///   - bytes: bytes that the ranges refer to.
    ///   - value: nil for a tombstone.
    package func decode(
        bytes: [UInt8], value: Range<Int>?, attributes: EventAttributes, topic: EventTopic
    ) -> Result<DecodedEvent, EventError> {
        do throws(EventError) {
            return .success(try decodeMessage(bytes, value, attributes, topic))
        } catch {
            var error = error
            if error.app == nil, let value { error.app = AppRecovery.app(in: bytes, value: value) }
            return .failure(error)
        }
    }

    /// Decodes one message with its headers.
    package func decode(
        bytes: [UInt8], value: Range<Int>?, headers: some Sequence<(name: Range<Int>, value: Range<Int>?)>,
        topic: EventTopic
    ) -> Result<DecodedEvent, EventError> {
        var attributes = EventAttributes()
        for header in headers { attributes.note(name: header.name, value: header.value, in: bytes) }
        return decode(bytes: bytes, value: value, attributes: attributes, topic: topic)
    }

    /// Decodes a message whose parts are not in one array.
    ///
    /// - Parameter topics: topics that may carry the event.
    package func decode(
        _ value: [UInt8], headers: [(name: String, value: String)], topics: [EventTopic] = EventTopic.allCases
    ) throws(EventError) -> DecodedEvent {
        var bytes = value
        var attributes = EventAttributes()
        for header in headers {
            let start = bytes.count
            bytes += header.name.utf8
            let middle = bytes.count
            bytes += header.value.utf8
            attributes.note(name: start..<middle, value: middle..<bytes.count, in: bytes)
        }
        return try first(of: topics) { (topic) throws(EventError) in
            try decodeMessage(bytes, 0..<value.count, attributes, topic)
        }
    }

    /// Decodes an event in structured mode that is part of a longer document.
    package func decode(
        structured bytes: [UInt8], in range: Range<Int>, topics: [EventTopic] = EventTopic.allCases
    ) throws(EventError) -> DecodedEvent {
        try checkSize(range.count)
        return try first(of: topics) { (topic) throws(EventError) in
            var reader = StructuredReader(bytes: bytes, value: range, topic: topic, ignoresTime: ignoresTimes)
            return try reader.read()
        }
    }

    private func first(
        of topics: [EventTopic], _ decode: (EventTopic) throws(EventError) -> DecodedEvent
    ) throws(EventError) -> DecodedEvent {
        var last = EventError(code: .unknownType, message: "unknown event type")
        for topic in topics {
            do throws(EventError) {
                return try decode(topic)
            } catch {
                last = error
                guard error.code == .wrongTopic else { throw error }
            }
        }
        throw last
    }

    /// Reads the data of an event of a known type, by the same rules as that of a message.
    ///
    /// - Throws: with a pointer into the data.
    package func decode(data bytes: [UInt8], of type: EventType) throws(EventError) -> FreshetEvent {
        try checkSize(bytes.count)
        return try Self.event(of: type, in: bytes, 0..<bytes.count)
    }

    /// All errors of data that ``decode(data:of:)`` refuses.
    package func problems(data bytes: [UInt8], of type: EventType) -> [EventError] {
        var reader = JSONReader(bytes)
        return reader.problems(of: type).map { EventError($0) }
    }

    /// Reads a document that is the data of an event.
    static func event(
        of type: EventType, in bytes: [UInt8], _ range: Range<Int>
    ) throws(EventError) -> FreshetEvent {
        var reader = JSONReader(bytes, in: range)
        do throws(JSONError) {
            let event = try reader.event(of: type)
            try reader.finish()
            return event
        } catch {
            throw EventError(error)
        }
    }

    private func checkSize(_ count: Int) throws(EventError) {
        guard count > maximumEventBytes else { return }
        throw EventError(code: .tooLarge, message: "\(count) bytes, at most \(maximumEventBytes) are allowed")
    }

    private func decodeMessage(
        _ bytes: [UInt8], _ value: Range<Int>?, _ attributes: EventAttributes, _ topic: EventTopic
    ) throws(EventError) -> DecodedEvent {
        guard let value else { throw EventError(code: .missingData, message: "the message has no value") }
        try checkSize(value.count)
        switch attributes.mode(in: bytes) {
        case .binary:
            return try decodeBinary(bytes, value, attributes, topic)
        case .structured:
            var reader = StructuredReader(bytes: bytes, value: value, topic: topic, ignoresTime: ignoresTimes)
            return try reader.read()
        case .unsupported:
            let found = attributes.contentType.map { String(decoding: bytes[$0], as: UTF8.self) } ?? ""
            throw EventError(
                code: .unsupportedContentType,
                message: "expected application/json or application/cloudevents+json, found \(Text.quoted(found))")
        }
    }

    private func decodeBinary(
        _ bytes: [UInt8], _ value: Range<Int>, _ attributes: EventAttributes, _ topic: EventTopic
    ) throws(EventError) -> DecodedEvent {
        func required(_ range: Range<Int>?, _ name: StaticString) throws(EventError) -> ArraySlice<UInt8> {
            guard let range else { throw EventAttribute.header(name).missing }
            return bytes[range]
        }
        try EventAttribute.header("ce_specversion").checkVersion(required(attributes.specversion, "ce_specversion"))
        let id = try EventAttribute.header("ce_id").text(required(attributes.id, "ce_id"))
        let source = try EventAttribute.header("ce_source").source(required(attributes.source, "ce_source"))
        let type = try EventAttribute.header("ce_type").type(required(attributes.type, "ce_type"), topic: topic)
        var time: Timestamp?
        if let range = attributes.time, !ignoresTimes {
            do throws(EventError) {
                time = try EventAttribute.header("ce_time").time(bytes[range])
            } catch {
                if type.usesTime { throw error }
            }
        }
        let envelope = EventEnvelope(
            id: id, source: source, type: type.rawValue, time: time,
            traceparent: attributes.traceparent.flatMap { EventAttribute.traceparent(bytes[$0]) })
        return DecodedEvent(envelope: envelope, event: try Self.event(of: type, in: bytes, value))
    }
}

/// A CloudEvents attribute, with the rules of its values.
enum EventAttribute: CustomStringConvertible {
    /// A header in binary mode.
    case header(StaticString)
    /// A member of the event in structured mode.
    case member(StaticString)

    var description: String {
        switch self {
        case .header(let name): "header \(name)"
        case .member(let name): "attribute \(name)"
        }
    }

    /// JSON pointer to a member.
    var pointer: String? {
        if case .member(let name) = self { "/\(name)" } else { nil }
    }

    var missing: EventError {
        EventError(code: .missingAttribute, message: "\(self) is missing", pointer: pointer)
    }

    func invalid(_ problem: String) -> EventError {
        EventError(code: .invalidAttribute, message: "\(self): \(problem)", pointer: pointer)
    }

    /// The text of a required attribute.
    func text(_ bytes: ArraySlice<UInt8>) throws(EventError) -> String {
        // Nearly every attribute is printable ASCII of a permitted length, which needs no further check.
        if (1...EventDecoder.maximumAttributeBytes).contains(bytes.count), Text.isPrintableASCII(bytes) {
            return String(decoding: bytes, as: UTF8.self)
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw EventError(code: .invalidUTF8, message: "\(self) is not UTF-8")
        }
        if let problem = Self.problem(of: text) { throw invalid(problem) }
        return text
    }

    /// The text of the attribute `source`, a URI reference. One in quotes is most probably JSON.
    func source(_ bytes: ArraySlice<UInt8>) throws(EventError) -> String {
        let source = try text(bytes)
        if bytes.first == UInt8(ascii: "\""), bytes.last == UInt8(ascii: "\"") {
            throw invalid("expected a URI reference without quotes, found \(Text.quoted(source))")
        }
        return source
    }

    func checkVersion(_ bytes: ArraySlice<UInt8>) throws(EventError) {
        guard !Text.equal(bytes, "1.0") else { return }
        throw invalid("expected \"1.0\", found \(Text.quoted(try text(bytes)))")
    }

    /// The type with this name, if the topic carries it.
    func type(_ name: ArraySlice<UInt8>, topic: EventTopic) throws(EventError) -> EventType {
        guard let type = EventType(utf8: name) else {
            guard let text = String(validating: name, as: UTF8.self) else {
                throw EventError(code: .invalidUTF8, message: "the event type is not UTF-8", pointer: pointer)
            }
            throw EventError(code: .unknownType, message: "unknown event type \(Text.quoted(text))", pointer: pointer)
        }
        guard type.topic == topic else {
            throw EventError(
                code: .wrongTopic, message: "\(type.rawValue) belongs on \(type.topic.defaultName)", pointer: pointer)
        }
        return type
    }

    func time(_ text: ArraySlice<UInt8>) throws(EventError) -> Timestamp {
        guard let time = Timestamp(rfc3339: text) else {
            let found = Text.quoted(String(decoding: text, as: UTF8.self))
            throw invalid("expected an RFC 3339 date-time, found \(found)")
        }
        return time
    }

    /// The trace context, or nil if it is malformed, since it is only a hint.
    static func traceparent(_ text: ArraySlice<UInt8>) -> String? {
        guard text.count <= 256, let text = String(validating: text, as: UTF8.self), problem(of: text) == nil else {
            return nil
        }
        return text
    }

    /// Reason why a text is not a valid attribute, or nil.
    static func problem(of text: String) -> String? {
        Text.identifierProblem(text, maximumBytes: EventDecoder.maximumAttributeBytes)
    }
}
