extension JSONReader {
    /// Reads the next number and returns its place in the bytes.
    package mutating func scanNumber() throws(JSONError) -> Range<Int> {
        let start = position
        if position < end, bytes[position] == UInt8(ascii: "-") { position &+= 1 }
        let integerStart = position
        let integerDigits = try takeDigits()
        guard integerDigits == 1 || bytes[integerStart] != UInt8(ascii: "0") else {
            throw failure(.syntax, "number with a leading zero", at: start)
        }
        var fractionDigits = 0
        if position < end, bytes[position] == UInt8(ascii: ".") {
            position &+= 1
            fractionDigits = try takeDigits()
        }
        var hasExponent = false
        if position < end, bytes[position] | 0x20 == UInt8(ascii: "e") {
            hasExponent = true
            position &+= 1
            if position < end, bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-") {
                position &+= 1
            }
            _ = try takeDigits()
        }
        // Up to 15 digits are exact. Neither they nor a fraction of up to 300 digits leave the range of a double.
        if checksNumbers, integerDigits > 15 || fractionDigits > 300 || hasExponent { try check(start..<position) }
        return start..<position
    }

    /// Refuses a number that the canonical form (RFC 8785) would change: beyond the range of a double, rounded to 0, or
    /// rounded from 2^53 on, such as 9007199254740993.
    private func check(_ number: Range<Int>) throws(JSONError) {
        let value = value(of: number)
        let isKept =
            if value == 0 {
                isZero(number)
            } else {
                value.magnitude < 0x1p53 || value.isFinite && ES6Number.isExact(bytes[number], value)
            }
        guard isKept else {
            let found = Text.printable(String(decoding: bytes[number].prefix(40), as: UTF8.self), maximum: 40)
            throw failure(
                .numberOutOfRange,
                "the number \(found)\(number.count > 40 ? "…" : "") cannot be kept exactly; use a string",
                at: number.lowerBound)
        }
    }

    /// Whether all digits before the exponent are zeros.
    private func isZero(_ number: Range<Int>) -> Bool {
        bytes[number].prefix { $0 | 0x20 != UInt8(ascii: "e") }.allSatisfy { !(0x31...0x39).contains($0) }
    }

    /// Takes at least one digit and returns their number.
    private mutating func takeDigits() throws(JSONError) -> Int {
        let start = position
        while position < end, bytes[position] &- 48 < 10 { position &+= 1 }
        guard position > start else { throw unexpected(expected: "a digit") }
        return position &- start
    }

    /// The double nearest to a number.
    package func value(of number: Range<Int>) -> Double {
        // Most numbers are short integers.
        if number.count <= 15, bytes[number].allSatisfy({ $0 &- 48 < 10 }) {
            return Double(bytes[number].reduce(0) { $0 &* 10 &+ Int($1 &- 48) })
        }
        return Double(String(decoding: bytes[number], as: UTF8.self)) ?? .infinity
    }
}
