// SPDX-License-Identifier: Apache-2.0

/// A JSON number, exactly as it was written.
///
/// Two numbers are equal when they are the same IEEE 754 double, which is all that RFC 8785 distinguishes.
package struct JSONNumber: Hashable, Sendable {
    /// The RFC 8259 literal.
    package let text: String

    /// Makes a number from a literal; nil if it is not a JSON number or a double cannot hold it.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        var reader = JSONReader(bytes)
        guard !bytes.isEmpty, let range = try? reader.scanNumber(), range == 0..<bytes.count else { return nil }
        self.text = text
    }

    /// Makes a number from a literal that a reader has checked.
    init(checked text: String) {
        self.text = text
    }

    package init(_ value: Int) {
        text = String(value)
    }

    /// Makes a number from the shortest literal of a double; nil if the double is not finite.
    package init?(_ value: Double) {
        guard value.isFinite else { return nil }
        text = Decimal.ecmaScript(value)
    }

    /// The nearest double; always finite.
    package var double: Double { Double(text) ?? 0 }

    /// The value as an integer; nil when it has a fraction or does not fit.
    package var int64: Int64? {
        if let exact = Int64(text) { return exact }
        return Int64(exactly: double)
    }

    /// The literal that RFC 8785 prescribes: ECMAScript's `Number::toString` of the double.
    package var canonical: String { Decimal.ecmaScript(double) }

    package static func == (left: JSONNumber, right: JSONNumber) -> Bool {
        left.text == right.text || left.double == right.double
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(double)
    }
}

extension JSONReader {
    /// Reads the next number and returns its place in the bytes.
    mutating func scanNumber() throws(JSONError) -> Range<Int> {
        let start = position
        if position < end, byte(position) == UInt8(ascii: "-") { position &+= 1 }
        let integerStart = position
        let integerDigits = try takeDigits()
        guard integerDigits == 1 || byte(integerStart) != UInt8(ascii: "0") else {
            throw failure(.syntax, "number with a leading zero", at: start)
        }
        var fractionDigits = 0
        if position < end, byte(position) == UInt8(ascii: ".") {
            position &+= 1
            fractionDigits = try takeDigits()
        }
        var hasExponent = false
        if position < end, byte(position) | 0x20 == UInt8(ascii: "e") {
            hasExponent = true
            position &+= 1
            if position < end, byte(position) == UInt8(ascii: "+") || byte(position) == UInt8(ascii: "-") {
                position &+= 1
            }
            _ = try takeDigits()
        }
        let literal = unsafe Range(uncheckedBounds: (start, position))
        // Up to 15 digits are exact. Neither they nor a fraction of up to 300 digits leave the range of a double.
        if checksNumbers, integerDigits > 15 || fractionDigits > 300 || hasExponent { try check(literal) }
        if run >= 0 {
            // The same as in `isCanonical`, of which most is known here.
            let isZero = byte(integerStart) == UInt8(ascii: "0")
            let isCanonical =
                !hasExponent && position &- integerStart <= 15
                && (fractionDigits == 0
                    ? !isZero || integerStart == start
                    : byte(position &- 1) != UInt8(ascii: "0")
                        && !(isZero && byte(integerStart &+ 2) == UInt8(ascii: "0")))
            if !isCanonical { writeNumber(literal) }
        }
        return literal
    }

    /// Takes at least one digit and returns their number.
    @inline(__always)
    private mutating func takeDigits() throws(JSONError) -> Int {
        let start = position
        var index = start
        while index < end, byte(index) &- 48 < 10 { index &+= 1 }
        position = index
        guard index > start else { throw unexpected(expected: "a digit") }
        return index &- start
    }

    /// Refuses a number that the canonical form (RFC 8785) would change: beyond the range of a double, rounded to 0, or
    /// rounded from 2^53 on, such as 9007199254740993.
    @inline(never)
    private mutating func check(_ number: Range<Int>) throws(JSONError) {
        let value = value(of: number)
        let isKept =
            if value == 0 {
                bytes[number].prefix { $0 | 0x20 != UInt8(ascii: "e") }.allSatisfy { !(0x31...0x39).contains($0) }
            } else {
                value.magnitude < 0x1p53
                    || value.isFinite && Decimal(literal: bytes[number]) == Decimal(value.magnitude)
            }
        guard isKept else {
            let found = Text.printable(String(decoding: bytes[number].prefix(40), as: UTF8.self), maximum: 40)
            throw failure(
                .numberOutOfRange,
                "the number \(found)\(number.count > 40 ? "…" : "") cannot be kept exactly; use a string",
                at: number.lowerBound)
        }
    }

    /// The double nearest to a number that has been read.
    package mutating func value(of number: Range<Int>) -> Double {
        // A number of at most 15 digits is an exact double, and so is a power of ten up to 10^22. Their quotient is
        // then rounded once, to the nearest double.
        var index = number.lowerBound
        let isNegative = byte(index) == UInt8(ascii: "-")
        if isNegative { index &+= 1 }
        var digits: Int64 = 0
        var pointAt: Int?
        if number.upperBound &- index <= 16 {
            scan: while index < number.upperBound {
                switch byte(index) {
                case let byte where byte &- 48 < 10: digits = digits &* 10 &+ Int64(byte &- 48)
                case UInt8(ascii: "."): pointAt = index
                default: break scan
                }
                index &+= 1
            }
        }
        guard index == number.upperBound, digits < 1 << 53 else {
            return Double(String(decoding: bytes[number], as: UTF8.self)) ?? .infinity
        }
        var value = Double(digits)
        if let pointAt { value /= Self.powersOfTen[number.upperBound &- pointAt &- 1] }
        return isNegative ? -value : value
    }

    private static let powersOfTen: [Double] = [
        1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    ]

    /// Returns true for a number that is certain to be canonical as it stands: a decimal with at most 15 digits, which
    /// a double preserves, without an exponent and redundant zeros. Other numbers may be canonical, too; they are
    /// converted.
    mutating func isCanonical(_ number: Range<Int>) -> Bool {
        var first = number.lowerBound
        if byte(first) == UInt8(ascii: "-") { first &+= 1 }
        let count = number.upperBound &- first
        guard count <= 15 else { return false }
        var hasPoint = false
        for index in first..<number.upperBound where byte(index) &- 48 >= 10 {
            guard byte(index) == UInt8(ascii: ".") else { return false }
            hasPoint = true
        }
        if hasPoint, byte(number.upperBound &- 1) == UInt8(ascii: "0") { return false }
        guard byte(first) == UInt8(ascii: "0") else { return true }
        // Accepts 0, and fractions from 0.1: the canonical form of smaller ones may have an exponent, and that of -0 is
        // 0.
        return count > 2 ? byte(first &+ 2) != UInt8(ascii: "0") : number.count == 1
    }
}

/// Significant decimal digits of a positive number, without zeros at either end, and the exponent for which the number
/// is 0.digits × 10^exponent.
struct Decimal: Equatable {
    private var digits: [UInt8] = []
    private var exponent = 0

    /// The shortest digits that identify a double.
    init(_ value: Double) {
        self.init(literal: value.description.utf8)
    }

    /// - Parameter literal: a number in decimal or scientific notation, whose sign is ignored.
    init(literal: some Sequence<UInt8>) {
        var pointAt: Int?
        var written = 0
        var bytes = literal.makeIterator()
        while let byte = bytes.next() {
            switch byte {
            case UInt8(ascii: "-"): continue
            case UInt8(ascii: "."): pointAt = written
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                var isNegative = false
                while let byte = bytes.next() {
                    switch byte {
                    case UInt8(ascii: "-"): isNegative = true
                    case UInt8(ascii: "0")...UInt8(ascii: "9"):
                        // Beyond any double, where only the sign matters.
                        exponent = min(exponent * 10 + Int(byte - 48), 1_000_000)
                    default: continue
                    }
                }
                if isNegative { exponent = -exponent }
            default:
                digits.append(byte)
                written += 1
            }
        }
        exponent += pointAt ?? written
        let leading = digits.prefix { $0 == UInt8(ascii: "0") }.count
        digits.removeFirst(leading)
        exponent -= leading
        while digits.last == UInt8(ascii: "0") { digits.removeLast() }
    }

    /// A finite double in the form of ECMAScript's `Number::toString`, which is RFC 8785's form.
    static func ecmaScript(_ value: Double) -> String {
        var out: [UInt8] = []
        append(value, to: &out)
        return String(decoding: out, as: UTF8.self)
    }

    /// Appends the shortest digits that identify a finite double, in ECMAScript's layout.
    static func append(_ value: Double, to out: inout [UInt8]) {
        guard value != 0 else { return out.append(UInt8(ascii: "0")) }
        if value < 0 { out.append(UInt8(ascii: "-")) }
        let decimal = Decimal(value.magnitude)
        let (digits, exponent) = (decimal.digits, decimal.exponent)
        let count = digits.count
        switch exponent {
        case 1...21 where count <= exponent:
            out += digits
            out += repeatElement(UInt8(ascii: "0"), count: exponent - count)
        case 1...21:
            out += digits[..<exponent]
            out.append(UInt8(ascii: "."))
            out += digits[exponent...]
        case -5...0:
            out += "0.".utf8
            out += repeatElement(UInt8(ascii: "0"), count: -exponent)
            out += digits
        default:
            out.append(digits[0])
            if count > 1 {
                out.append(UInt8(ascii: "."))
                out += digits[1...]
            }
            out.append(UInt8(ascii: "e"))
            out.append(exponent > 0 ? UInt8(ascii: "+") : UInt8(ascii: "-"))
            out += String((exponent - 1).magnitude).utf8
        }
    }
}
