package import WidgetModel

/// A reload request in its common spelling, as ranges of its message's bytes.
///
/// The result is exactly that of ``EventDecoder``. Anything malformed, unknown or unusual (escapes, characters beyond ASCII,
/// `matching`, further members, structured mode) is left to the decoder. No text is made, so that requests are folded by
/// their bytes.
package struct QuickRequest: Sendable {
    /// A range of the bytes that the message was read from.
    package struct Slice: Sendable, BitwiseCopyable {
        package let start: UInt32
        package let count: UInt16

        package init(start: Int, count: Int) {
            self.start = UInt32(truncatingIfNeeded: start)
            self.count = UInt16(truncatingIfNeeded: count)
        }

        package var range: Range<Int> { Int(start)..<Int(start) + Int(count) }
    }

    package enum Sort: UInt8, Sendable, BitwiseCopyable {
        case user, device, widget, everyone
    }

    package let app: Slice
    /// Id of the user, device or widget; empty for everyone.
    package let audience: Slice
    /// The kinds in JSON, from the first opening quote to the last closing quote.
    private let kinds: Slice
    /// Number of kinds, with repetitions; 0 for all kinds of the app.
    package let kindCount: UInt8
    package let sort: Sort
    package let reason: ReloadReason

    /// The most kinds of one request.
    private static let maximumKinds = 16

    /// - Parameters:
    ///   - bytes: bytes that the ranges refer to.
    ///   - attributes: the message's headers.
    ///   - maximumBytes: the longest value.
    package init?(
        bytes: [UInt8], value: Range<Int>?, attributes: EventAttributes, topic: EventTopic, maximumBytes: Int
    ) {
        guard let value, value.count <= maximumBytes, bytes.count <= UInt32.max,
            let type = Self.type(attributes, topic, bytes)
        else { return nil }
        var reader = QuickReader(bytes: bytes, reader: JSONReader(bytes, in: value))
        var request: QuickReader.Request?
        do throws(JSONError) {
            request = try reader.request(hasState: type == .appChanged, maximumKinds: Self.maximumKinds)
        } catch {
            return nil
        }
        guard let request else { return nil }
        (app, reason, sort, audience) = (request.app, request.reason, request.audience.sort, request.audience.id)
        (kinds, kindCount) = request.kinds
    }

    /// The kind after a place, which is nil at the beginning.
    package func nextKind(after place: inout Int?, in bytes: RawSpan) -> Slice? {
        let end = kinds.range.upperBound
        var index = place ?? kinds.range.lowerBound
        while index < end, bytes.unsafeLoad(fromByteOffset: index, as: UInt8.self) != UInt8(ascii: "\"") { index &+= 1 }
        guard index < end else { return nil }
        let start = index &+ 1
        index = start
        while index < end, bytes.unsafeLoad(fromByteOffset: index, as: UInt8.self) != UInt8(ascii: "\"") { index &+= 1 }
        place = index &+ 1
        return Slice(start: start, count: index &- start)
    }

    /// The event's type; nil unless the attributes are those of a plain reload request.
    private static func type(
        _ attributes: EventAttributes, _ topic: EventTopic, _ bytes: [UInt8]
    ) -> EventType? {
        func says(_ range: Range<Int>?, _ text: StaticString) -> Bool {
            range.map {
                bytes[$0].elementsEqual(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
            }
                ?? false
        }
        func isPlain(_ range: Range<Int>?) -> Bool {
            guard let range, (1...EventDecoder.maximumAttributeBytes).contains(range.count) else { return false }
            return Envelope.isPrintableASCII(range, in: bytes)
        }
        guard attributes.contentType == nil || says(attributes.contentType, "application/json"),
            says(attributes.specversion, "1.0"), isPlain(attributes.id), isPlain(attributes.source),
            let name = attributes.type, let type = EventType(utf8: bytes[name]), type.topic == topic,
            type == .pushReceived || type == .appChanged
        else { return nil }
        if let time = attributes.time, Timestamp(rfc3339: bytes[time]) == nil { return nil }
        return type
    }
}

/// Reader of the JSON that ``QuickRequest`` accepts; nil is for the decoder.
private struct QuickReader {
    typealias Slice = QuickRequest.Slice
    typealias Audience = (sort: QuickRequest.Sort, id: Slice)
    typealias Kinds = (slice: Slice, count: UInt8)
    typealias Request = (app: Slice, audience: Audience, kinds: Kinds, reason: ReloadReason)

    let bytes: [UInt8]
    var reader: JSONReader

    mutating func request(hasState: Bool, maximumKinds: Int) throws(JSONError) -> Request? {
        var app: Slice?
        var audience: Audience?
        var kinds: Kinds?
        var reason: ReloadReason? = hasState ? nil : .push
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "app") {
                app = try identifier()
                guard app != nil else { return nil }
            } else if reader.matches(key, "audience") {
                audience = try self.audience()
                guard audience != nil else { return nil }
            } else if reader.matches(key, "kinds") {
                kinds = try self.kinds(atMost: maximumKinds)
                guard kinds != nil else { return nil }
            } else if hasState, reader.matches(key, "state") {
                reason = try reader.appState()
            } else {
                return nil
            }
        }
        try reader.finish()
        guard let app, let audience, let kinds, let reason else { return nil }
        return (app, audience, kinds, reason)
    }

    /// An id of printable ASCII without escapes.
    private mutating func identifier() throws(JSONError) -> Slice? {
        let token = try reader.stringToken()
        guard !token.hasEscapes, (1...Text.maximumIdentifierBytes).contains(token.range.count),
            Envelope.isPrintableASCII(token.range, in: bytes)
        else { return nil }
        return Slice(start: token.range.lowerBound, count: token.range.count)
    }

    /// An object of one member.
    private mutating func audience() throws(JSONError) -> Audience? {
        var object = try reader.beginObject()
        guard let key = try reader.nextKey(&object) else { return nil }
        let sort: QuickRequest.Sort
        var id: Slice? = Slice(start: 0, count: 0)
        if reader.matches(key, "everyone") {
            sort = .everyone
            guard try reader.bool() else { return nil }
        } else {
            if reader.matches(key, "user") {
                sort = .user
            } else if reader.matches(key, "device") {
                sort = .device
            } else if reader.matches(key, "widget") {
                sort = .widget
            } else {
                return nil
            }
            id = try identifier()
        }
        guard let id, try reader.nextKey(&object) == nil else { return nil }
        return (sort, id)
    }

    private mutating func kinds(atMost limit: Int) throws(JSONError) -> Kinds? {
        guard try reader.peek() == .array else {
            let token = try reader.stringToken()
            return reader.matches(token, "all") ? (Slice(start: 0, count: 0), 0) : nil
        }
        var place: Range<Int>?
        var count: UInt8 = 0
        var array = try reader.beginArray()
        while try reader.nextElement(&array) {
            guard count < limit, let kind = try identifier() else { return nil }
            count += 1
            place = (place?.lowerBound ?? kind.range.lowerBound - 1)..<kind.range.upperBound + 1
        }
        guard let place, place.count <= UInt16.max else { return nil }
        return (Slice(start: place.lowerBound, count: place.count), count)
    }
}
