internal import WidgetModel

/// Decodes CloudEvents in JSON, in binary or structured mode, from the bytes of a polled batch without copying.
///
/// Unknown members of the data and unknown extension attributes are ignored.
package struct EventDecoder: Sendable {
    /// Longest `id`, `source` or `type` of an event, in bytes.
    package static let maximumAttributeBytes = 1024

    /// Longest value, in bytes.
    package let maximumEventBytes: Int

    package static let defaultMaximumEventBytes = 1_048_576

    package init(maximumEventBytes: Int = defaultMaximumEventBytes) {
        self.maximumEventBytes = maximumEventBytes
    }

    /// Decodes one message.
    ///
    /// - Parameters:
    ///   - bytes: bytes that the ranges refer to.
    ///   - value: nil for a tombstone.
    ///   - headers: names and values; a null value is nil.
    @inlinable
    package func decode(
        bytes: [UInt8], value: Range<Int>?, headers: some Sequence<(name: Range<Int>, value: Range<Int>?)>,
        topic: EventTopic
    ) -> Result<DecodedEvent, EventError> {
        var attributes = EventAttributes()
        for header in headers { attributes.note(name: header.name, value: header.value, in: bytes) }
        return decode(bytes: bytes, value: value, attributes: attributes, topic: topic)
    }

    /// Decodes one message whose headers have been noted.
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
        var last = EventError(code: .unknownType, message: "unknown event type")
        for topic in topics {
            do throws(EventError) {
                return try decodeMessage(bytes, 0..<value.count, attributes, topic)
            } catch {
                last = error
                guard error.code == .wrongTopic else { throw error }
            }
        }
        throw last
    }

    private func decodeMessage(
        _ bytes: [UInt8], _ value: Range<Int>?, _ attributes: EventAttributes, _ topic: EventTopic
    ) throws(EventError) -> DecodedEvent {
        guard let value else { throw EventError(code: .missingData, message: "the message has no value") }
        guard value.count <= maximumEventBytes else {
            throw EventError(
                code: .tooLarge, message: "\(value.count) bytes, at most \(maximumEventBytes) are allowed")
        }
        let mode = attributes.contentType.map { EventContentMode(contentType: bytes[$0]) } ?? .binary
        switch mode {
        case .binary:
            return try decodeBinary(bytes, value, attributes, topic)
        case .structured:
            var reader = StructuredReader(bytes: bytes, value: value, topic: topic)
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
        let version = try Envelope.required(attributes.specversion, "ce_specversion", in: bytes)
        guard version == "1.0" else {
            throw EventError(
                code: .invalidAttribute,
                message: "header ce_specversion: expected \"1.0\", found \(Text.quoted(version))")
        }
        let id = try Envelope.required(attributes.id, "ce_id", in: bytes)
        let source = try Envelope.required(attributes.source, "ce_source", in: bytes)
        guard let typeRange = attributes.type else { throw Envelope.missing("header ce_type") }
        let type = try Envelope.type(bytes[typeRange], topic: topic)
        var time: Timestamp?
        if let range = attributes.time {
            time = try Envelope.time(bytes[range], "header ce_time")
        }
        var traceparent: String?
        if let range = attributes.traceparent { traceparent = Envelope.traceparent(bytes[range]) }

        var reader = JSONReader(bytes, in: value)
        let event: FreshetEvent
        do throws(JSONError) {
            event = try reader.event(of: type)
            try reader.finish()
        } catch {
            throw EventError(error)
        }
        let envelope = EventEnvelope(
            id: id, source: source, type: type.rawValue, time: time, traceparent: traceparent)
        return DecodedEvent(envelope: envelope, event: event)
    }
}

/// Rules of the CloudEvents attributes, in either mode.
enum Envelope {
    static func missing(_ what: String, pointer: String? = nil) -> EventError {
        EventError(code: .missingAttribute, message: "\(what) is missing", pointer: pointer)
    }

    /// A required attribute of the binary mode.
    static func required(
        _ range: Range<Int>?, _ header: StaticString, in bytes: [UInt8]
    ) throws(EventError) -> String {
        guard let range else { throw missing("header \(header)") }
        // Nearly every attribute is printable ASCII.
        if (1...EventDecoder.maximumAttributeBytes).contains(range.count), isPrintableASCII(range, in: bytes) {
            return String(decoding: bytes[range], as: UTF8.self)
        }
        guard let text = String(validating: bytes[range], as: UTF8.self) else {
            throw EventError(code: .invalidUTF8, message: "header \(header) is not UTF-8")
        }
        if let problem = problem(of: text) {
            throw EventError(code: .invalidAttribute, message: "header \(header): \(problem)")
        }
        return text
    }

    static func isPrintableASCII(_ range: Range<Int>, in bytes: [UInt8]) -> Bool {
        for index in range where bytes[index] &- 0x20 >= 0x5F { return false }
        return true
    }

    /// Reason why a text is not a valid attribute, or nil.
    static func problem(of text: String) -> String? {
        let count = text.utf8.count
        if count == 0 { return "must not be empty" }
        if count > EventDecoder.maximumAttributeBytes {
            return "must be at most \(EventDecoder.maximumAttributeBytes) bytes, is \(count)"
        }
        return Text.containsControlCharacter(text) ? "must not contain control characters" : nil
    }

    /// The type with this name, if the topic carries it.
    static func type(
        _ name: ArraySlice<UInt8>, topic: EventTopic, pointer: String? = nil
    ) throws(EventError) -> EventType {
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

    static func time(
        _ text: ArraySlice<UInt8>, _ what: String, pointer: String? = nil
    ) throws(EventError) -> Timestamp {
        guard let time = Timestamp(rfc3339: text) else {
            let found = Text.quoted(String(decoding: text, as: UTF8.self))
            throw EventError(
                code: .invalidAttribute, message: "\(what): expected an RFC 3339 date-time, found \(found)",
                pointer: pointer)
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
}
