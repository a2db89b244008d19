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
        // Up to 15 digits are exact, and neither they nor so many of a fraction leave the range of a double.
        if checksNumbers, integerDigits > ES6Number.safeDigits || fractionDigits > 300 || exponentDigits > 0 {
            try check(token)
        }
        return token
    }

    /// Refuses a number that the canonical form (RFC 8785) would change: one beyond the range of a double, one that becomes
    /// 0, and one from 2^53 on with another value than its double's, such as 9007199254740993.
    private func check(_ token: JSONNumberToken) throws(JSONError) {
        let value = value(of: token)
        let isKept =
            if value == 0 {
                isZero(token)
            } else {
                value.magnitude < 0x1p53 || value.isFinite && ES6Number.isExact(bytes[token.range], value)
            }
        guard isKept else {
            let found = Text.printable(String(decoding: bytes[token.range].prefix(40), as: UTF8.self), maximum: 40)
            throw failure(
                .numberOutOfRange,
                "the number \(found)\(token.range.count > 40 ? "…" : "") cannot be kept exactly; use a string",
                at: token.range.lowerBound)
        }
    }

    /// Whether all digits before the exponent are zeros.
    private func isZero(_ token: JSONNumberToken) -> Bool {
        bytes[token.range].prefix { $0 | 0x20 != UInt8(ascii: "e") }.allSatisfy { !(0x31...0x39).contains($0) }
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
