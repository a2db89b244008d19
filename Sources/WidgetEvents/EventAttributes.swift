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

    var traceparent: Range<Int>? { cloudTraceparent ?? plainTraceparent }

    /// The message's mode. Without a content type, a message without attributes in headers is in structured mode, since
    /// some tools cannot set headers.
    func mode(in bytes: [UInt8]) -> EventContentMode {
        if let contentType { return EventContentMode(contentType: bytes[contentType]) }
        return specversion == nil && id == nil && source == nil && type == nil ? .structured : .binary
    }

    /// Notes a header. Other headers and null values are ignored.
    package mutating func note(name: Range<Int>, value: Range<Int>?, in bytes: [UInt8]) {
        guard let value else { return }
        switch name.count {
        case 5 where Self.matches(name, "ce_id", in: bytes): id = value
        case 7 where Self.matches(name, "ce_type", in: bytes): type = value
        case 7 where Self.matches(name, "ce_time", in: bytes): time = value
        case 9 where Self.matches(name, "ce_source", in: bytes): source = value
        case 11 where Self.matches(name, "traceparent", in: bytes): plainTraceparent = value
        case 12 where Self.matches(name, "content-type", in: bytes): contentType = value
        case 12 where Self.matches(name, "freshet-user", in: bytes): user = value
        case 13 where Self.matches(name, "freshet-order", in: bytes): order = value
        case 14 where Self.matches(name, "ce_specversion", in: bytes): specversion = value
        case 14 where Self.matches(name, "ce_traceparent", in: bytes): cloudTraceparent = value
        case 15 where Self.matches(name, "freshet-outcome", in: bytes): outcome = value
        default: break
        }
    }

    /// Whether a header's name equals a text of the same length, ignoring case.
    private static func matches(_ name: Range<Int>, _ text: StaticString, in bytes: [UInt8]) -> Bool {
        let expected = text.utf8Start
        for index in 0..<name.count {
            var byte = bytes[name.lowerBound &+ index]
            if byte &- 0x41 < 26 { byte |= 0x20 }
            guard byte == expected[index] else { return false }
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

    /// - Parameter contentType: media type with parameters.
    init(contentType: ArraySlice<UInt8>) {
        if contentType.elementsEqual("application/json".utf8) {
            self = .binary
            return
        }
        if contentType.elementsEqual("application/cloudevents+json".utf8) {
            self = .structured
            return
        }
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
