// SPDX-License-Identifier: Apache-2.0

import JSON
internal import WidgetModel

/// Decodes CloudEvents in JSON, in binary or structured mode, from the bytes of a polled batch without copying.
///
/// Unknown members of the data and unknown extension attributes are ignored.
package struct EventDecoder: Sendable {
    package static let defaultMaximumEventBytes = 1_048_576
    /// Most kinds of a request, shortcuts of a set, and ranges of a shortcut.
    package static let maximumKinds = 1_000
    package static let maximumShortcuts = 20
    package static let maximumRanges = 24
    /// Longest role of a shortcut, in bytes.
    package static let maximumRoleBytes = 64
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
    ) throws(EventError) -> DecodedEvent {
        var buffers = DecodingBuffers(bytes)
        let message = try decode(value: value, attributes: attributes, topic: topic, buffers: &buffers)
        return buffers.event(message)
    }

    /// Decodes one of several messages.
    ///
    /// - Parameters:
    ///   - value: its place in the buffers' bytes; nil for a tombstone.
    ///   - keepsAttributes: false to check `id` and `source` without returning them, and to leave out a time that does
    ///     not matter.
    package func decode(
        value: Range<Int>?, attributes: EventAttributes, topic: EventTopic, keepsAttributes: Bool = true,
        buffers: inout DecodingBuffers
    ) throws(EventError) -> DecodedMessage {
        let bytes = buffers.bytes
        guard let value else { throw EventError(code: .missingData, message: "the message has no value") }
        try checkSize(value.count)
        switch attributes.mode(in: bytes) {
        case .binary: break
        case .structured:
            return try decode(structured: value, topic: topic, keepsAttributes: keepsAttributes, &buffers)
        case .unsupported:
            let found = attributes.contentType.map { String(decoding: bytes[$0], as: UTF8.self) } ?? ""
            throw EventError(
                code: .unsupportedContentType,
                message: "expected application/json or application/cloudevents+json, found \(Text.quoted(found))")
        }
        func required(_ range: Range<Int>?, _ name: StaticString) throws(EventError) -> Range<Int> {
            guard let range else { throw EventAttribute.header(name).missing }
            return range
        }
        try EventAttribute.header("ce_specversion").checkVersion(
            bytes.span.extracting(required(attributes.specversion, "ce_specversion")))
        let id = try EventAttribute.header("ce_id").text(
            bytes.span.extracting(required(attributes.id, "ce_id")), isKept: keepsAttributes)
        let source = try EventAttribute.header("ce_source").source(
            bytes.span.extracting(required(attributes.source, "ce_source")), isKept: keepsAttributes)
        let type = try buffers.names.type(
            required(attributes.type, "ce_type"), in: bytes, .header("ce_type"), topic: topic)
        var time: Timestamp?
        if let range = attributes.time, !ignoresTimes, keepsAttributes || type.usesTime {
            do throws(EventError) {
                time = try EventAttribute.header("ce_time").time(bytes.span.extracting(range))
            } catch {
                if type.usesTime { throw error }
            }
        }
        return DecodedMessage(
            id: id, source: source, time: time,
            traceparent: attributes.traceparent.flatMap { EventAttribute.traceparent(bytes[$0]) },
            content: try buffers.content(of: type, value))
    }

    /// Decodes a message in structured mode; the parameters are those of
    /// ``decode(value:attributes:topic:keepsAttributes:buffers:)``.
    private func decode(
        structured value: Range<Int>, topic: EventTopic, keepsAttributes: Bool, _ buffers: inout DecodingBuffers
    ) throws(EventError) -> DecodedMessage {
        var structured = StructuredReader(
            value: value, topic: topic, ignoresTime: ignoresTimes, keepsAttributes: keepsAttributes)
        return try structured.read(from: &buffers)
    }

    /// Decodes one message with its headers.
    package func decode(
        bytes: [UInt8], value: Range<Int>?, headers: some Sequence<(name: Range<Int>, value: Range<Int>?)>,
        topic: EventTopic
    ) throws(EventError) -> DecodedEvent {
        var attributes = EventAttributes()
        for header in headers { attributes.note(name: header.name, value: header.value, in: bytes) }
        return try decode(bytes: bytes, value: value, attributes: attributes, topic: topic)
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
            try decode(bytes: bytes, value: 0..<value.count, attributes: attributes, topic: topic)
        }
    }

    /// Decodes an event in structured mode that is part of a longer document.
    package func decode(
        structured bytes: [UInt8], in range: Range<Int>, topics: [EventTopic] = EventTopic.allCases
    ) throws(EventError) -> DecodedEvent {
        try checkSize(range.count)
        return try first(of: topics) { (topic) throws(EventError) in
            var buffers = DecodingBuffers(bytes)
            let message = try decode(structured: range, topic: topic, keepsAttributes: true, &buffers)
            return buffers.event(message)
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
        var buffers = DecodingBuffers(bytes)
        return buffers.event(try buffers.content(of: type, 0..<bytes.count))
    }

    /// All errors of the data of an event in structured mode that ``decode(structured:in:topics:)`` refuses, or the
    /// only error of the event.
    package func problems(
        structured bytes: [UInt8], in range: Range<Int>, topics: [EventTopic] = EventTopic.allCases
    ) -> [EventError] {
        var last: [EventError] = []
        for topic in topics {
            var buffers = DecodingBuffers(bytes)
            var structured = StructuredReader(
                value: range, topic: topic, ignoresTime: ignoresTimes, keepsAttributes: true)
            last = structured.problems(from: &buffers)
            if last.first?.code != .wrongTopic { break }
        }
        return last
    }

    /// All errors of data that ``decode(data:of:)`` refuses.
    package func problems(data bytes: [UInt8], of type: EventType) -> [EventError] {
        var reader = JSONReader(bytes)
        return reader.problems(of: type).map { EventError($0) }
    }

    private func checkSize(_ count: Int) throws(EventError) {
        guard count > maximumEventBytes else { return }
        throw EventError(code: .tooLarge, message: "\(count) bytes, at most \(maximumEventBytes) are allowed")
    }
}

/// Memory that the decoding of several messages in one array shares.
package struct DecodingBuffers: ~Copyable {
    let bytes: [UInt8]
    var reader: JSONReader
    package internal(set) var names = RecurringNames()

    package init(_ bytes: [UInt8]) {
        self.bytes = bytes
        reader = JSONReader(bytes)
    }

    /// Reads a document that is the data of an event.
    mutating func content(of type: EventType, _ range: Range<Int>) throws(EventError) -> EventContent {
        reader.restart(in: range)
        var problems: [JSONError]?
        do throws(JSONError) {
            let content = try reader.content(of: type, &problems, &names)
            try reader.finish()
            return content
        } catch {
            throw EventError(error)
        }
    }

    /// The event with this content.
    package func event(_ content: EventContent) -> FreshetEvent {
        switch content {
        case .reload(let reload): FreshetEvent(names.request(reload, in: bytes))
        case .event(let event): event
        }
    }

    func event(_ message: DecodedMessage) -> DecodedEvent {
        DecodedEvent(
            id: message.id, source: message.source, time: message.time, traceparent: message.traceparent,
            event: event(message.content))
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
    ///
    /// - Parameter isKept: false to check the text and return an empty one.
    func text(_ bytes: Span<UInt8>, isKept: Bool = true) throws(EventError) -> String {
        // Nearly every attribute is printable ASCII of a permitted length, which needs no further check.
        if (1...EventDecoder.maximumAttributeBytes).contains(bytes.count), Text.isPrintableASCII(bytes) {
            return isKept ? Text.ascii(bytes) : ""
        }
        guard let text = Text.validated(bytes) else {
            throw EventError(code: .invalidUTF8, message: "\(self) is not UTF-8")
        }
        if let problem = Self.problem(of: text) { throw invalid(problem) }
        return text
    }

    /// The text of the attribute `source`, a URI reference. One in quotes is most probably JSON.
    func source(_ bytes: Span<UInt8>, isKept: Bool = true) throws(EventError) -> String {
        let source = try text(bytes, isKept: isKept)
        if bytes[0] == UInt8(ascii: "\""), bytes[bytes.count - 1] == UInt8(ascii: "\"") {
            throw invalid("expected a URI reference without quotes, found \(Text.quoted(try text(bytes)))")
        }
        return source
    }

    func checkVersion(_ bytes: Span<UInt8>) throws(EventError) {
        let isSupported =
            bytes.count == 3 && bytes[0] == UInt8(ascii: "1") && bytes[1] == UInt8(ascii: ".")
            && bytes[2] == UInt8(ascii: "0")
        if isSupported { return }
        throw invalid("expected \"1.0\", found \(Text.quoted(try text(bytes)))")
    }

    /// The type with this name, if the topic carries it.
    func type(_ name: Span<UInt8>, topic: EventTopic) throws(EventError) -> EventType {
        guard let type = EventType(utf8: name) else {
            guard let text = Text.validated(name) else {
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

    func time(_ text: Span<UInt8>) throws(EventError) -> Timestamp {
        guard let time = Timestamp(rfc3339: text) else {
            let found = Text.quoted(Text.repaired(text))
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

// MARK: - Apps of broken events

extension EventDecoder {
    /// Longest searched prefix of a message.
    private static let searchedBytes = 65_536

    /// The app of a broken event, for its dead letter: the `app` member of the message's object or of its `data`, if it
    /// comes before the error.
    package static func app(in bytes: [UInt8], value: Range<Int>) -> String? {
        let searched = value.lowerBound..<min(value.upperBound, value.lowerBound + searchedBytes)
        var reader = JSONReader(bytes, in: searched, checksNumbers: false)
        var app: String?
        _ = try? search(&reader, for: &app, isEvent: true)
        return app
    }

    private static func search(
        _ reader: inout JSONReader, for app: inout String?, isEvent: Bool
    ) throws(JSONError) {
        try reader.beginObject()
        while app == nil, let key = try reader.nextKey() {
            switch key {
            case "app": app = try reader.identifier()
            case "data" where isEvent:
                if try reader.peek() == .object {
                    try search(&reader, for: &app, isEvent: false)
                } else {
                    try reader.skip()
                }
            default: try reader.skip()
            }
        }
    }
}

/// Ranges of the CloudEvents headers in a message's bytes. The last of repeated headers counts.
package struct EventAttributes: Sendable {
    var specversion: Range<Int>?
    var id: Range<Int>?
    var source: Range<Int>?
    var type: Range<Int>?
    var time: Range<Int>?
    var cloudTraceparent: Range<Int>?
    var plainTraceparent: Range<Int>?
    var contentType: Range<Int>?
    var order: Range<Int>?
    var user: Range<Int>?
    var outcome: Range<Int>?

    package init() {}

    /// Whether a header asks for the outcome of the event.
    package var asksForOutcome: Bool { outcome != nil }

    /// Whether a header asks for the outcome, names a user, or sets the order.
    package var haveOptions: Bool { outcome != nil || user != nil || order != nil }

    var traceparent: Range<Int>? { cloudTraceparent ?? plainTraceparent }

    /// The message's mode. Without a content type, a message without attributes in headers is in structured mode, since
    /// some tools cannot set headers.
    func mode(in bytes: [UInt8]) -> EventContentMode {
        if let contentType { return EventContentMode(contentType: contentType, in: bytes) }
        return specversion == nil && id == nil && source == nil && type == nil ? .structured : .binary
    }

    /// Notes a header. Other headers and null values are ignored.
    package mutating func note(name: Range<Int>, value: Range<Int>?, in bytes: [UInt8]) {
        guard let value else { return }
        let name = ShortText(bytes, name)
        // Names of headers are compared without regard to case.
        if !note(name, value) { _ = note(name.lowercased, value) }
    }

    private mutating func note(_ name: ShortText, _ value: Range<Int>) -> Bool {
        switch name {
        case "ce_id": id = value
        case "ce_type": type = value
        case "ce_time": time = value
        case "ce_source": source = value
        case "traceparent": plainTraceparent = value
        case "content-type": contentType = value
        case "freshet-user": user = value
        case "freshet-order": order = value
        case "ce_specversion": specversion = value
        case "ce_traceparent": cloudTraceparent = value
        case "freshet-outcome": outcome = value
        default: return false
        }
        return true
    }
}

/// Mode of a message.
enum EventContentMode: Equatable {
    /// Attributes in headers, JSON data as the value.
    case binary
    /// The whole event as the value.
    case structured
    case unsupported

    /// - Parameter contentType: place of the media type, with parameters.
    init(contentType: Range<Int>, in bytes: [UInt8]) {
        // Nearly every message has one of these, in this spelling.
        if "application/json" ~= ShortText(bytes, contentType) {
            self = .binary
        } else if Self.isStructured(bytes.span.extracting(contentType)) {
            self = .structured
        } else {
            self.init(anySpelling: bytes[contentType])
        }
    }

    /// Whether a content type, with or without parameters, is `application/cloudevents+json` in exactly this spelling.
    private static func isStructured(_ contentType: Span<UInt8>) -> Bool {
        let name = "application/cloudevents+json"
        let count = name.utf8.count
        guard contentType.count >= count, Text.equal(contentType.extracting(0..<count), name) else { return false }
        return contentType.count == count || contentType[count] == UInt8(ascii: ";")
    }

    private init(anySpelling contentType: ArraySlice<UInt8>) {
        let essence = contentType.prefix { $0 != UInt8(ascii: ";") }
        let type = String(decoding: essence, as: UTF8.self).lowercased()
        switch String(type.drop { $0 == " " }.prefix { $0 != " " }) {
        case "application/cloudevents+json": self = .structured
        case let type where type.hasPrefix("application/cloudevents"): self = .unsupported
        case "application/json", "text/json": self = .binary
        case let type where type.hasSuffix("+json"): self = .binary
        default: self = .unsupported
        }
    }
}
