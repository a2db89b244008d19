// SPDX-License-Identifier: Apache-2.0

import JSON
internal import WidgetModel

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Reads an event in structured mode: one JSON object with the attributes and the data.
struct StructuredReader {
    private let value: Range<Int>
    private let topic: EventTopic
    private let ignoresTime: Bool
    private let keepsAttributes: Bool
    /// Nil: the first error of the data is thrown.
    private var problems: [JSONError]?

    private var hasVersion = false
    private var id: String?
    private var source: String?
    private var type: EventType?
    /// The time, which is read when the type is known.
    private var time: JSONStringToken?
    /// Error of a time, which counts for types that use it.
    private var timeError: EventError?
    private var traceparent: String?
    private var content: EventContent?
    /// Index of the data if it precedes the type.
    private var dataOffset: Int?
    /// The decoded `data_base64`.
    private var decoded: [UInt8]?

    /// - Parameters:
    ///   - value: place of the event in the bytes.
    ///   - keepsAttributes: false to check `id` and `source` without returning them, and to leave out a time that does
    ///     not matter.
    init(value: Range<Int>, topic: EventTopic, ignoresTime: Bool, keepsAttributes: Bool) {
        (self.value, self.topic) = (value, topic)
        (self.ignoresTime, self.keepsAttributes) = (ignoresTime, keepsAttributes)
    }

    mutating func read(from buffers: inout DecodingBuffers) throws(EventError) -> DecodedMessage {
        do {
            return try readEvent(&buffers)
        } catch let error as JSONError {
            throw EventError(error)
        } catch {
            throw error as? EventError ?? EventError(code: .malformedJSON, message: "\(error)")
        }
    }

    /// All errors of the data, or else the first error of the event; none if there is none.
    mutating func problems(from buffers: inout DecodingBuffers) -> [EventError] {
        problems = []
        do throws(EventError) {
            _ = try read(from: &buffers)
            return []
        } catch {
            let found = (problems ?? []).map { EventError($0) }
            return found.contains(error) ? found : [error]
        }
    }

    private mutating func readEvent(_ buffers: inout DecodingBuffers) throws -> DecodedMessage {
        buffers.reader.restart(in: value)
        try buffers.reader.beginObject()
        while let key = try buffers.reader.nextKey() { try readMember(key, &buffers) }
        try buffers.reader.finish()

        guard hasVersion else { throw EventAttribute.member("specversion").missing }
        guard let id else { throw EventAttribute.member("id").missing }
        guard let source else { throw EventAttribute.member("source").missing }
        guard let type else { throw EventAttribute.member("type").missing }
        let time = try time(of: type, &buffers.reader)
        if let dataOffset {
            var reader = JSONReader(buffers.bytes, in: value, startingAt: dataOffset, root: "/data")
            content = try reader.content(of: type, &problems, &buffers.names)
        }
        if let decoded {
            guard content == nil else {
                throw EventError(
                    code: .invalidAttribute, message: "expected either data or data_base64, found both",
                    pointer: "/data_base64")
            }
            content = .event(try read(decoded, of: type))
        }
        guard let content else {
            throw EventError(code: .missingData, message: "the event has no data", pointer: "/data")
        }
        return DecodedMessage(id: id, source: source, time: time, traceparent: traceparent, content: content)
    }

    private mutating func readMember(_ key: JSONKey, _ buffers: inout DecodingBuffers) throws {
        switch key {
        case "specversion":
            let text = try text(.member("specversion"), &buffers.reader)
            try EventAttribute.member("specversion").checkVersion(text.span)
            hasVersion = true
        case "id":
            let text = try text(.member("id"), &buffers.reader)
            id = try EventAttribute.member("id").text(text.span, isKept: keepsAttributes)
        case "source":
            let text = try text(.member("source"), &buffers.reader)
            source = try EventAttribute.member("source").source(text.span, isKept: keepsAttributes)
        case "type": type = try readType(&buffers)
        case "time":
            guard try !buffers.reader.takeNull() else { return }
            try readTime(&buffers.reader)
        case "datacontenttype":
            guard try !buffers.reader.takeNull() else { return }
            try checkContentType(&buffers.reader)
        case "traceparent":
            guard try !buffers.reader.takeNull() else { return }
            traceparent = EventAttribute.traceparent(try text(.member("traceparent"), &buffers.reader))
        case "data":
            guard try !buffers.reader.takeNull() else { return }
            if let type {
                content = try buffers.reader.content(of: type, &problems, &buffers.names)
            } else {
                dataOffset = try buffers.reader.skip().lowerBound
            }
        case "data_base64":
            guard try !buffers.reader.takeNull() else { return }
            decoded = try base64(&buffers.reader)
        default: try buffers.reader.skip()
        }
    }

    private func readType(_ buffers: inout DecodingBuffers) throws(EventError) -> EventType {
        let token = try token(.member("type"), &buffers.reader)
        guard token.hasEscapes else {
            return try buffers.names.type(token.range, in: buffers.bytes, .member("type"), topic: topic)
        }
        return try EventAttribute.member("type").type(buffers.reader.utf8(of: token).span, topic: topic)
    }

    private mutating func readTime(_ reader: inout JSONReader) throws {
        let start = reader.checkpoint
        do throws(EventError) {
            time = try token(.member("time"), &reader)
        } catch {
            timeError = error
            reader.rewind(to: start)
            try reader.skip()
        }
    }

    /// The time of an event of this type.
    private func time(of type: EventType, _ reader: inout JSONReader) throws(EventError) -> Timestamp? {
        guard !ignoresTime, keepsAttributes || type.usesTime else { return nil }
        do throws(EventError) {
            if let timeError { throw timeError }
            return try time.map { (token) throws(EventError) in
                try EventAttribute.member("time").time(reader.utf8(of: token).span)
            }
        } catch {
            if type.usesTime { throw error }
            return nil
        }
    }

    /// Decodes Base64 with padding (RFC 4648, section 4), in the only spelling of its bytes.
    private func base64(_ reader: inout JSONReader) throws(EventError) -> [UInt8] {
        let text = Data(try text(.member("data_base64"), &reader))
        guard let data = Data(base64Encoded: text), data.base64EncodedData() == text else {
            throw EventAttribute.member("data_base64").invalid("expected Base64 (RFC 4648)")
        }
        return Array(data)
    }

    /// Reads the event from decoded data. Errors point to the member with the data and have the place within it.
    private func read(_ decoded: [UInt8], of type: EventType) throws(EventError) -> FreshetEvent {
        do throws(EventError) {
            var buffers = DecodingBuffers(decoded)
            return buffers.event(try buffers.content(of: type, 0..<decoded.count))
        } catch {
            let place = error.pointer.map { $0.isEmpty ? "" : " at \($0)" } ?? ""
            throw EventError(
                code: error.code, message: "in the decoded data\(place): \(error.message)", pointer: "/data_base64",
                app: EventDecoder.app(in: decoded, value: 0..<decoded.count))
        }
    }

    private func checkContentType(_ reader: inout JSONReader) throws(EventError) {
        let token = try token(.member("datacontenttype"), &reader)
        let text = reader.utf8(of: token)
        let mode =
            token.hasEscapes
            ? EventContentMode(contentType: 0..<text.count, in: Array(text))
            : EventContentMode(contentType: token.range, in: reader.bytes)
        guard mode == .binary else {
            let found = Text.quoted(String(decoding: text, as: UTF8.self))
            throw EventError(
                code: .unsupportedContentType, message: "expected data in application/json, found \(found)",
                pointer: "/datacontenttype")
        }
    }

    /// The value of an attribute.
    private func text(
        _ attribute: EventAttribute, _ reader: inout JSONReader
    ) throws(EventError) -> ArraySlice<UInt8> {
        reader.utf8(of: try token(attribute, &reader))
    }

    private func token(
        _ attribute: EventAttribute, _ reader: inout JSONReader
    ) throws(EventError) -> JSONStringToken {
        do throws(JSONError) {
            return try reader.stringToken()
        } catch {
            guard error.kind == .wrongType else { throw EventError(error) }
            throw attribute.invalid(error.message)
        }
    }
}
