/// Numbers in the form of ECMAScript's `Number::toString`, which is RFC 8785's form.
package enum ES6Number {
    /// Appends the canonical form of a literal that has been checked.
    package static func appendCanonical(literal: ArraySlice<UInt8>, to out: inout [UInt8]) {
        guard !isCanonical(literal) else { return out.append(contentsOf: literal) }
        append(Double(String(decoding: literal, as: UTF8.self)) ?? 0, to: &out)
    }

    /// Returns true for a decimal with at most 15 digits, no exponent and no redundant zeros. A double preserves 15
    /// digits, so such a literal is already canonical. Returns false for some canonical literals, which are then
    /// converted.
    private static func isCanonical(_ literal: ArraySlice<UInt8>) -> Bool {
        let digits = literal.first == UInt8(ascii: "-") ? literal.dropFirst() : literal
        guard digits.count <= 15, let first = digits.first else { return false }
        var hasPoint = false
        for byte in digits where byte &- 48 >= 10 {
            guard byte == UInt8(ascii: ".") else { return false }
            hasPoint = true
        }
        if hasPoint, digits.last == UInt8(ascii: "0") { return false }
        guard first == UInt8(ascii: "0") else { return true }
        // Accepts 0, and fractions from 0.1: the canonical form of smaller ones may have an exponent, and that of -0 is
        // 0.
        return digits.count > 2 ? digits[digits.startIndex + 2] != first : literal.count == 1
    }

    /// Returns true if conversion to a double and back to the canonical form keeps the literal's value.
    ///
    /// - Parameter value: the double nearest to the literal; neither 0 nor infinite.
    static func isExact(_ literal: ArraySlice<UInt8>, _ value: Double) -> Bool {
        let text = String(decoding: literal, as: UTF8.self).lowercased()
        let written = decimal(of: text.hasPrefix("-") ? String(text.dropFirst()) : text)
        let kept = decimal(of: value.magnitude.description)
        return written.exponent == kept.exponent && written.digits == kept.digits
    }

    static func format(_ value: Double) -> String {
        var out: [UInt8] = []
        append(value, to: &out)
        return String(decoding: out, as: UTF8.self)
    }

    /// Appends the shortest digits that identify a finite double, in ECMAScript's layout.
    static func append(_ value: Double, to out: inout [UInt8]) {
        guard value != 0 else {
            out.append(UInt8(ascii: "0"))
            return
        }
        if value < 0 { out.append(UInt8(ascii: "-")) }
        // Swift's description has the shortest digits that are nearest to the value. Only its layout differs.
        let (digits, exponent) = decimal(of: value.magnitude.description)
        let count = digits.count
        // value = 0.digits × 10^exponent
        if exponent >= 1, exponent <= 21 {
            if count <= exponent {
                out.append(contentsOf: digits)
                for _ in 0..<(exponent - count) { out.append(UInt8(ascii: "0")) }
            } else {
                out.append(contentsOf: digits[..<exponent])
                out.append(UInt8(ascii: "."))
                out.append(contentsOf: digits[exponent...])
            }
        } else if exponent >= -5, exponent <= 0 {
            out.append(UInt8(ascii: "0"))
            out.append(UInt8(ascii: "."))
            for _ in 0..<(-exponent) { out.append(UInt8(ascii: "0")) }
            out.append(contentsOf: digits)
        } else {
            out.append(digits[0])
            if count > 1 {
                out.append(UInt8(ascii: "."))
                out.append(contentsOf: digits[1...])
            }
            out.append(UInt8(ascii: "e"))
            out.append(exponent > 0 ? UInt8(ascii: "+") : UInt8(ascii: "-"))
            out.append(contentsOf: String((exponent - 1).magnitude).utf8)
        }
    }

    /// Significant digits, without zeros at either end, and the exponent for which the value is 0.digits × 10^exponent.
    private static func decimal(of description: String) -> (digits: [UInt8], exponent: Int) {
        var digits: [UInt8] = []
        var pointAt: Int?
        var written = 0
        var exponent = 0
        var bytes = description.utf8.makeIterator()
        while let byte = bytes.next() {
            switch byte {
            case UInt8(ascii: "."):
                pointAt = written
            case UInt8(ascii: "e"):
                var isNegative = false
                while let byte = bytes.next() {
                    switch byte {
                    case UInt8(ascii: "-"): isNegative = true
                    case UInt8(ascii: "0")...UInt8(ascii: "9"): exponent = exponent * 10 + Int(byte - 48)
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
        return (digits, exponent)
    }
}
