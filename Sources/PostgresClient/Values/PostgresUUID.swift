/// uuid: 128 bits, ordered as PostgreSQL orders them.
@usableFromInline
package struct PostgresUUID: Hashable, Sendable {
    @usableFromInline package var high: UInt64
    @usableFromInline package var low: UInt64

    @inlinable
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}

extension PostgresUUID: Comparable {
    @inlinable
    package static func < (left: PostgresUUID, right: PostgresUUID) -> Bool {
        left.high != right.high ? left.high < right.high : left.low < right.low
    }
}

extension PostgresUUID: PostgresValue {
    @inlinable
    package static var postgresType: PostgresType { .uuid }

    @inlinable
    package var postgresByteCount: Int { 16 }

    @inlinable
    package func encode(into writer: inout PostgresWriter) {
        writer.write(high)
        writer.write(low)
    }

    @inlinable
    package init?(postgresBytes bytes: RawSpan, oid: UInt32) {
        guard bytes.byteCount == 16 else { return nil }
        self.init(high: bytes.postgresInteger(at: 0), low: bytes.postgresInteger(at: 8))
    }
}

extension PostgresUUID: LosslessStringConvertible {
    /// Reads the 8-4-4-4-12 form, in either case.
    @usableFromInline
    package init?(_ description: String) {
        var words: (UInt64, UInt64) = (0, 0)
        var digits = 0
        for (position, character) in description.utf8.enumerated() {
            if position == 8 || position == 13 || position == 18 || position == 23 {
                guard character == UInt8(ascii: "-") else { return nil }
                continue
            }
            guard let digit = Character(UnicodeScalar(character)).hexDigitValue, digits < 32 else { return nil }
            if digits < 16 { words.0 = words.0 << 4 | UInt64(digit) } else { words.1 = words.1 << 4 | UInt64(digit) }
            digits += 1
        }
        guard digits == 32 else { return nil }
        self.init(high: words.0, low: words.1)
    }

    /// 8-4-4-4-12, in lower case.
    @usableFromInline
    package var description: String {
        var text = ""
        text.reserveCapacity(36)
        for position in 0..<32 {
            if position == 8 || position == 12 || position == 16 || position == 20 { text.append("-") }
            let word = position < 16 ? high : low
            let digit = UInt8(truncatingIfNeeded: word >> UInt64(60 - position % 16 * 4)) & 0xF
            let code = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
            text.unicodeScalars.append(UnicodeScalar(code))
        }
        return text
    }
}
