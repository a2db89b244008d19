package import WidgetModel

/// A reload request in its common spelling, as ranges of its message's bytes.
///
/// The result is exactly that of ``EventDecoder``. Anything malformed, unknown or unusual (escapes, characters beyond ASCII,
/// `matching`, further members, structured mode) is left to the decoder.
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
    /// Largest number of bytes that ranges can refer to.
    private static let maximumArena = Int(UInt32.max)

    /// - Parameters:
    ///   - bytes: bytes that the ranges refer to.
    ///   - attributes: the message's headers.
    ///   - maximumBytes: the longest value.
    package init?(
        bytes: [UInt8], value: Range<Int>?, attributes: borrowing EventAttributes, topic: EventTopic, maximumBytes: Int
    ) {
        guard let value, value.count <= maximumBytes, value.upperBound <= bytes.count,
            bytes.count <= Self.maximumArena
        else { return nil }
        let raw = bytes.span.bytes
        guard let hasState = Self.hasState(attributes, topic, raw) else { return nil }
        var reader = QuickReader(position: value.lowerBound, end: value.upperBound)
        var app: Slice?
        var audience: (sort: Sort, id: Slice)?
        var kinds: (slice: Slice, count: UInt8)?
        var reason: ReloadReason? = hasState ? nil : .push
        guard reader.take(UInt8(ascii: "{"), raw) else { return nil }
        repeat {
            guard let key = reader.key(raw) else { return nil }
            switch key {
            case .app where app == nil:
                app = reader.identifier(raw)
                guard app != nil else { return nil }
            case .audience where audience == nil:
                audience = reader.audience(raw)
                guard audience != nil else { return nil }
            case .kinds where kinds == nil:
                kinds = reader.kinds(raw, atMost: Self.maximumKinds)
                guard kinds != nil else { return nil }
            case .state where reason == nil:
                reason = reader.state(raw)
                guard reason != nil else { return nil }
            default: return nil
            }
        } while reader.take(UInt8(ascii: ","), raw)
        guard let app, let audience, let kinds, let reason, reader.take(UInt8(ascii: "}"), raw),
            reader.isAtEnd(raw)
        else { return nil }
        self.app = app
        self.audience = audience.id
        self.kinds = kinds.slice
        self.kindCount = kinds.count
        self.sort = audience.sort
        self.reason = reason
    }

    /// The kind after a place, which is nil at the beginning.
    package func nextKind(after place: inout Int?, in bytes: RawSpan) -> Slice? {
        let end = kinds.range.upperBound
        var index = place ?? kinds.range.lowerBound
        while index < end, bytes.byte(at: index) != UInt8(ascii: "\"") { index &+= 1 }
        guard index < end else { return nil }
        let start = index &+ 1
        index = start
        while index < end, bytes.byte(at: index) != UInt8(ascii: "\"") { index &+= 1 }
        place = index &+ 1
        return Slice(start: start, count: index &- start)
    }

    /// Whether the event type has a `state`; nil unless the attributes are those of a plain reload request.
    private static func hasState(
        _ attributes: borrowing EventAttributes, _ topic: EventTopic, _ raw: RawSpan
    ) -> Bool? {
        // application/json, which is also the default.
        if let contentType = attributes.contentType {
            guard contentType.count == 16, raw.word(at: contentType.lowerBound) == 0x7461_6369_6C70_7061,
                raw.word(at: contentType.lowerBound &+ 8) == 0x6E6F_736A_2F6E_6F69
            else { return nil }
        }
        guard let version = attributes.specversion, version.count == 3,
            raw.word(at: version.lowerBound) & 0xFF_FFFF == 0x30_2E31,
            let id = attributes.id, isPlain(id, raw), let source = attributes.source, isPlain(source, raw)
        else { return nil }
        if let time = attributes.time {
            guard QuickReader.isTime(time, raw) else { return nil }
        }
        // freshet. …
        guard let type = attributes.type, raw.word(at: type.lowerBound) == 0x2E74_6568_7365_7266 else { return nil }
        switch topic {
        case .pushes:
            // push.received.v1
            guard type.count == 24, raw.word(at: type.lowerBound &+ 8) == 0x6365_722E_6873_7570,
                raw.word(at: type.lowerBound &+ 16) == 0x3176_2E64_6576_6965
            else { return nil }
            return false
        case .appChanges:
            // app.changed.v1
            guard type.count == 22, raw.word(at: type.lowerBound &+ 8) == 0x6E61_6863_2E70_7061,
                raw.word(at: type.lowerBound &+ 16) & 0xFFFF_FFFF_FFFF == 0x3176_2E64_6567
            else { return nil }
            return true
        case .widgets:
            return nil
        }
    }

    /// Whether an attribute is printable ASCII of a valid length.
    private static func isPlain(_ range: Range<Int>, _ raw: RawSpan) -> Bool {
        guard range.count >= 1, range.count <= EventDecoder.maximumAttributeBytes else { return false }
        return raw.firstUnprintable(from: range.lowerBound, to: range.upperBound) == range.upperBound
    }
}

/// Reader of the JSON that ``QuickRequest`` accepts.
private struct QuickReader {
    enum Key {
        case app, audience, kinds, state
    }

    var position: Int
    let end: Int

    @inline(__always)
    mutating func skipWhitespace(_ raw: RawSpan) {
        while position < end {
            switch raw.byte(at: position) {
            case 0x20, 0x0A, 0x0D, 0x09: position &+= 1
            default: return
            }
        }
    }

    /// Takes `byte` if it comes next after white space.
    @inline(__always)
    mutating func take(_ byte: UInt8, _ raw: RawSpan) -> Bool {
        skipWhitespace(raw)
        guard position < end, raw.byte(at: position) == byte else { return false }
        position &+= 1
        return true
    }

    mutating func isAtEnd(_ raw: RawSpan) -> Bool {
        skipWhitespace(raw)
        return position == end
    }

    /// Takes a text that ends with a closing quote within the word. A text beyond the end fails later.
    @inline(__always)
    private mutating func take(_ word: UInt64, _ text: UInt64, count: Int) -> Bool {
        guard word & ((1 << UInt64(count &* 8)) &- 1) == text else { return false }
        position &+= count
        return true
    }

    /// A member of the request and its colon.
    mutating func key(_ raw: RawSpan) -> Key? {
        guard take(UInt8(ascii: "\""), raw) else { return nil }
        let word = raw.word(at: position)
        let key: Key
        if take(word, 0x2270_7061, count: 4) {
            key = .app
        } else if take(word, 0x2273_646E_696B, count: 6) {
            key = .kinds
        } else if take(word, 0x2265_7461_7473, count: 6) {
            key = .state
        } else if word == 0x6563_6E65_6964_7561 {
            position &+= 8
            guard position < end, raw.byte(at: position) == UInt8(ascii: "\"") else { return nil }
            position &+= 1
            key = .audience
        } else {
            return nil
        }
        return take(UInt8(ascii: ":"), raw) ? key : nil
    }

    /// An id of printable ASCII without escapes.
    mutating func identifier(_ raw: RawSpan) -> QuickRequest.Slice? {
        guard take(UInt8(ascii: "\""), raw) else { return nil }
        let start = position
        let stop = raw.firstSpecial(from: start, to: end)
        guard stop < end, raw.byte(at: stop) == UInt8(ascii: "\""), stop > start,
            stop &- start <= Text.maximumIdentifierBytes
        else { return nil }
        position = stop &+ 1
        return QuickRequest.Slice(start: start, count: stop &- start)
    }

    /// An object of one member.
    mutating func audience(_ raw: RawSpan) -> (sort: QuickRequest.Sort, id: QuickRequest.Slice)? {
        guard take(UInt8(ascii: "{"), raw), take(UInt8(ascii: "\""), raw) else { return nil }
        let word = raw.word(at: position)
        let sort: QuickRequest.Sort
        if take(word, 0x22_7265_7375, count: 5) {
            sort = .user
        } else if take(word, 0x22_6563_6976_6564, count: 7) {
            sort = .device
        } else if take(word, 0x22_7465_6764_6977, count: 7) {
            sort = .widget
        } else if word == 0x656E_6F79_7265_7665 {
            position &+= 8
            guard position < end, raw.byte(at: position) == UInt8(ascii: "\"") else { return nil }
            position &+= 1
            sort = .everyone
        } else {
            return nil
        }
        guard take(UInt8(ascii: ":"), raw) else { return nil }
        let id: QuickRequest.Slice
        if sort == .everyone {
            skipWhitespace(raw)
            guard take(raw.word(at: position), 0x6575_7274, count: 4) else { return nil }
            id = QuickRequest.Slice(start: 0, count: 0)
        } else {
            guard let read = identifier(raw) else { return nil }
            id = read
        }
        return take(UInt8(ascii: "}"), raw) ? (sort, id) : nil
    }

    mutating func kinds(_ raw: RawSpan, atMost limit: Int) -> (slice: QuickRequest.Slice, count: UInt8)? {
        guard take(UInt8(ascii: "["), raw) else {
            // "all"
            guard take(UInt8(ascii: "\""), raw), take(raw.word(at: position), 0x226C_6C61, count: 4) else { return nil }
            return (QuickRequest.Slice(start: 0, count: 0), 0)
        }
        skipWhitespace(raw)
        let start = position
        var stop = start
        var count = 0
        repeat {
            guard count < limit, identifier(raw) != nil else { return nil }
            count &+= 1
            stop = position
        } while take(UInt8(ascii: ","), raw)
        guard take(UInt8(ascii: "]"), raw), stop &- start <= Int(UInt16.max) else { return nil }
        return (QuickRequest.Slice(start: start, count: stop &- start), UInt8(truncatingIfNeeded: count))
    }

    mutating func state(_ raw: RawSpan) -> ReloadReason? {
        guard take(UInt8(ascii: "\""), raw) else { return nil }
        let head = raw.word(at: position)
        let tail = raw.word(at: position &+ 8) & 0xFF_FFFF
        // foregrou nd" and backgrou nd"
        guard tail == 0x22_646E else { return nil }
        position &+= 11
        switch head {
        case 0x756F_7267_6572_6F66: return .foreground
        case 0x756F_7267_6B63_6162: return .background
        default: return nil
        }
    }

    /// Whether a text is a time such as `2026-06-22T10:00:00.123Z`, in UTC, from the year 1000 on and not on a leap day.
    static func isTime(_ range: Range<Int>, _ raw: RawSpan) -> Bool {
        guard (20...30).contains(range.count) else { return false }
        let start = range.lowerBound
        @inline(__always) func byte(_ index: Int) -> UInt8 { raw.byte(at: start &+ index) }
        @inline(__always) func digit(_ index: Int) -> Int? {
            let digit = byte(index) &- 0x30
            return digit <= 9 ? Int(digit) : nil
        }
        @inline(__always) func pair(_ index: Int) -> Int? {
            guard let tens = digit(index), let ones = digit(index &+ 1) else { return nil }
            return tens &* 10 &+ ones
        }
        guard let century = pair(0), century >= 10, pair(2) != nil, byte(4) == UInt8(ascii: "-"),
            let month = pair(5), month >= 1, month <= 12, byte(7) == UInt8(ascii: "-"),
            let day = pair(8), day >= 1, byte(10) == UInt8(ascii: "T"),
            let hour = pair(11), hour <= 23, byte(13) == UInt8(ascii: ":"),
            let minute = pair(14), minute <= 59, byte(16) == UInt8(ascii: ":"),
            let second = pair(17), second <= 59, byte(range.count &- 1) == UInt8(ascii: "Z")
        else { return false }
        // Bit of each month that has 31 days, January first.
        guard day <= 28 || (month != 2 && (day <= 30 || (day == 31 && 0b1010_1101_0101 >> (month &- 1) & 1 == 1)))
        else { return false }
        if range.count == 20 { return true }
        guard range.count >= 22, byte(19) == UInt8(ascii: ".") else { return false }
        for index in 20..<(range.count &- 1) where digit(index) == nil { return false }
        return true
    }
}

extension RawSpan {
    @inline(__always)
    fileprivate func byte(at index: Int) -> UInt8 {
        unsafeLoad(fromByteOffset: index, as: UInt8.self)
    }

    /// Eight bytes, the first one lowest; zero beyond the end.
    @inline(__always)
    fileprivate func word(at index: Int) -> UInt64 {
        // Any eight bytes are a UInt64, and the load is checked against the bounds.
        if index &+ 8 <= byteCount {
            return UInt64(littleEndian: unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self))
        }
        var word: UInt64 = 0
        for offset in 0..<max(0, byteCount &- index) { word |= UInt64(byte(at: index &+ offset)) << UInt64(offset * 8) }
        return word
    }

    /// The first byte that is a quote, a backslash, a control character, DEL or not ASCII; else the end.
    @inline(__always)
    fileprivate func firstSpecial(from start: Int, to end: Int) -> Int {
        var index = start
        let ones: UInt64 = 0x0101_0101_0101_0101
        while index &+ 8 <= end {
            let word = word(at: index)
            let quotes = word ^ (ones &* 0x22)
            let backslashes = word ^ (ones &* 0x5C)
            let deletes = word ^ (ones &* 0x7F)
            // The high bit of each byte that is special; above the lowest one set there may be false ones.
            let special =
                (word | ((word &- ones &* 0x20) & ~word) | ((quotes &- ones) & ~quotes)
                    | ((backslashes &- ones) & ~backslashes) | ((deletes &- ones) & ~deletes)) & (ones &* 0x80)
            guard special == 0 else { return index &+ special.trailingZeroBitCount &>> 3 }
            index &+= 8
        }
        while index < end {
            let byte = byte(at: index)
            if byte < 0x20 || byte == 0x22 || byte == 0x5C || byte >= 0x7F { return index }
            index &+= 1
        }
        return end
    }

    /// The first byte that is a control character, DEL or not ASCII; else the end.
    @inline(__always)
    fileprivate func firstUnprintable(from start: Int, to end: Int) -> Int {
        var index = start
        while index < end {
            index = firstSpecial(from: index, to: end)
            guard index < end else { return end }
            let byte = byte(at: index)
            guard byte == 0x22 || byte == 0x5C else { return index }
            index &+= 1
        }
        return end
    }
}
