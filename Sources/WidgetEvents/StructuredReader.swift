// SPDX-License-Identifier: Apache-2.0

import JSON
internal import WidgetModel

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Reads an event in structured mode: one JSON object with the attributes and the data.
struct StructuredReader: ~Copyable {
    /// Nil: the first error of the data is thrown.
    private var problems: [JSONError]?
    private let topic: EventTopic
    private var reader: JSONReader
    private var names = RecurringNames()
    private let bytes: [UInt8]
    private let value: Range<Int>

    private var hasVersion = false
    private var id: String?
    private var source: String?
    private var type: EventType?
    private var time: Timestamp?
    /// Error of a time, which counts for types that use it.
    private var timeError: EventError?
    private let ignoresTime: Bool
    private var traceparent: String?
    private var event: FreshetEvent?
    /// Index of the data if it precedes the type.
    private var dataOffset: Int?
    /// The decoded `data_base64`.
    private var decoded: [UInt8]?

    init(bytes: [UInt8], value: Range<Int>, topic: EventTopic, ignoresTime: Bool) {
        self.ignoresTime = ignoresTime
        self.bytes = bytes
        self.value = value
        self.topic = topic
        reader = JSONReader(bytes, in: value)
    }

    mutating func read() throws(EventError) -> DecodedEvent {
        do {
            return try readEvent()
        } catch let error as JSONError {
            throw EventError(error)
        } catch {
            throw error as? EventError ?? EventError(code: .malformedJSON, message: "\(error)")
        }
    }

    private mutating func readEvent() throws -> DecodedEvent {
        try reader.beginObject()
        while let key = try reader.nextKey() { try readMember(key) }
        try reader.finish()

        guard hasVersion else { throw EventAttribute.member("specversion").missing }
        guard let id else { throw EventAttribute.member("id").missing }
        guard let source else { throw EventAttribute.member("source").missing }
        guard let type else { throw EventAttribute.member("type").missing }
        if let timeError, type.usesTime { throw timeError }
        if let dataOffset {
            reader = JSONReader(bytes, in: value, startingAt: dataOffset, root: "/data")
            event = try reader.event(of: type, &problems, &names)
        }
        if let decoded {
            guard event == nil else {
                throw EventError(
                    code: .invalidAttribute, message: "expected either data or data_base64, found both",
                    pointer: "/data_base64")
            }
            event = try read(decoded, of: type)
        }
        guard let event else {
            throw EventError(code: .missingData, message: "the event has no data", pointer: "/data")
        }
        return DecodedEvent(id: id, source: source, time: time, traceparent: traceparent, event: event)
    }

    private mutating func readMember(_ key: JSONKey) throws {
        switch key {
        case "specversion":
            let text = try text(.member("specversion"))
            try EventAttribute.member("specversion").checkVersion(text.span)
            hasVersion = true
        case "id":
            let text = try text(.member("id"))
            id = try EventAttribute.member("id").text(text.span)
        case "source":
            let text = try text(.member("source"))
            source = try EventAttribute.member("source").source(text.span)
        case "type":
            let text = try text(.member("type"))
            type = try EventAttribute.member("type").type(text.span, topic: topic)
        case "time":
            guard try !reader.takeNull() else { return }
            try readTime()
        case "datacontenttype":
            guard try !reader.takeNull() else { return }
            try checkContentType()
        case "traceparent":
            guard try !reader.takeNull() else { return }
            traceparent = EventAttribute.traceparent(try text(.member("traceparent")))
        case "data":
            guard try !reader.takeNull() else { return }
            if let type {
                event = try reader.event(of: type, &problems, &names)
            } else {
                dataOffset = try reader.skip().lowerBound
            }
        case "data_base64":
            guard try !reader.takeNull() else { return }
            decoded = try base64()
        default: try reader.skip()
        }
    }

    private mutating func readTime() throws {
        let start = reader.checkpoint
        do throws(EventError) {
            let text = try text(.member("time"))
            if !ignoresTime { time = try EventAttribute.member("time").time(text.span) }
        } catch {
            if !ignoresTime { timeError = error }
            reader.rewind(to: start)
            try reader.skip()
        }
    }

    /// Decodes Base64 with padding (RFC 4648, section 4), in the only spelling of its bytes.
    private mutating func base64() throws(EventError) -> [UInt8] {
        let text = Data(try text(.member("data_base64")))
        guard let data = Data(base64Encoded: text), data.base64EncodedData() == text else {
            throw EventAttribute.member("data_base64").invalid("expected Base64 (RFC 4648)")
        }
        return Array(data)
    }

    /// Reads the event from decoded data. Errors point to the member with the data and have the place within it.
    private func read(_ decoded: [UInt8], of type: EventType) throws(EventError) -> FreshetEvent {
        do throws(EventError) {
            var buffers = DecodingBuffers(decoded)
            return try buffers.event(of: type, 0..<decoded.count)
        } catch {
            let place = error.pointer.map { $0.isEmpty ? "" : " at \($0)" } ?? ""
            throw EventError(
                code: error.code, message: "in the decoded data\(place): \(error.message)", pointer: "/data_base64",
                app: EventDecoder.app(in: decoded, value: 0..<decoded.count))
        }
    }

    private mutating func checkContentType() throws(EventError) {
        let text = try text(.member("datacontenttype"))
        guard EventContentMode(contentType: text) == .binary else {
            let found = Text.quoted(String(decoding: text, as: UTF8.self))
            throw EventError(
                code: .unsupportedContentType, message: "expected data in application/json, found \(found)",
                pointer: "/datacontenttype")
        }
    }

    /// The value of an attribute.
    private mutating func text(_ attribute: EventAttribute) throws(EventError) -> ArraySlice<UInt8> {
        do throws(JSONError) {
            let token = try reader.stringToken()
            return reader.utf8(of: token)
        } catch {
            guard error.kind == .wrongType else { throw EventError(error) }
            throw attribute.invalid(error.message)
        }
    }
}
