/// A number of the document, left in place.
struct JSONNumberToken: Sendable {
    let range: Range<Int>
    /// Digits before the point.
    let integerDigits: Int
    /// Digits after the point.
    let fractionDigits: Int
    let hasExponent: Bool
}

extension JSONReader {
    /// Reads the number that comes next.
    mutating func scanNumber() throws(JSONError) -> JSONNumberToken {
        let start = position
        if position < end, bytes[position] == UInt8(ascii: "-") { position &+= 1 }
        let integerStart = position
        let integerDigits = takeDigits()
        guard integerDigits > 0 else { throw unexpected(expected: "a digit") }
        guard integerDigits == 1 || bytes[integerStart] != UInt8(ascii: "0") else {
            throw failure(.syntax, "number with a leading zero", at: start)
        }
        var fractionDigits = 0
        if position < end, bytes[position] == UInt8(ascii: ".") {
            position &+= 1
            fractionDigits = takeDigits()
            guard fractionDigits > 0 else { throw unexpected(expected: "a digit") }
        }
        var exponentDigits = 0
        if position < end, bytes[position] | 0x20 == UInt8(ascii: "e") {
            position &+= 1
            if position < end, bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-") {
                position &+= 1
            }
            exponentDigits = takeDigits()
            guard exponentDigits > 0 else { throw unexpected(expected: "a digit") }
        }
        let token = JSONNumberToken(
            range: start..<position, integerDigits: integerDigits, fractionDigits: fractionDigits,
            hasExponent: exponentDigits > 0)
        // Up to 200 digits and an exponent of two stay below 1e300; of others only the conversion can tell.
        if integerDigits > 200 || exponentDigits > 2, !value(of: token).isFinite {
            throw failure(.numberOutOfRange, "number out of the range of a double", at: start)
        }
        return token
    }

    private mutating func takeDigits() -> Int {
        let start = position
        while position < end, bytes[position] &- 48 < 10 { position &+= 1 }
        return position &- start
    }

    /// The double nearest to a number.
    func value(of token: JSONNumberToken) -> Double {
        // Up to 15 digits and 10^22 are exact doubles, so one division rounds correctly.
        guard !token.hasExponent, token.integerDigits + token.fractionDigits <= 15 else {
            return Double(String(decoding: bytes[token.range], as: UTF8.self)) ?? .infinity
        }
        var digits: Int64 = 0
        for byte in bytes[token.range] where byte &- 48 < 10 { digits = digits &* 10 &+ Int64(byte &- 48) }
        let magnitude = Double(digits) / Self.powersOfTen[token.fractionDigits]
        return bytes[token.range.lowerBound] == UInt8(ascii: "-") ? -magnitude : magnitude
    }

    private static let powersOfTen: [Double] = [
        1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
    ]
}
