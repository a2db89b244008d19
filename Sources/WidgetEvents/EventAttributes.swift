import JSON

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
        // Names of headers are compared without regard to case.
        switch ShortText(bytes, name).lowercased {
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
        default: break
        }
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
        if Text.equal(contentType, "application/json") {
            self = .binary
            return
        }
        if Text.equal(contentType, "application/cloudevents+json") {
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
