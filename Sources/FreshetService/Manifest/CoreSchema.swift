/// YAML 1.2's core schema for plain scalars: only `true` and `false` are booleans, and numbers become JSON numbers.
enum CoreSchema {
    /// A number that JSON cannot hold.
    struct Unrepresentable: Error {
        let message: String
    }

    static func resolve(_ text: String) -> Result<LocatedValue.Content, Unrepresentable> {
        switch text {
        case "", "~", "null", "Null", "NULL": return .success(.null)
        case "true", "True", "TRUE": return .success(.bool(true))
        case "false", "False", "FALSE": return .success(.bool(false))
        default: break
        }
        let unsigned = text.hasPrefix("-") || text.hasPrefix("+") ? text.dropFirst() : text[...]
        if [".inf", ".Inf", ".INF"].contains(unsigned) || [".nan", ".NaN", ".NAN"].contains(text) {
            return .failure(Unrepresentable(message: "\(text) has no place in JSON"))
        }
        if let prefixed = prefixedInteger(text) { return .success(.number(String(prefixed))) }
        if let number = jsonNumber(text, unsigned: unsigned) { return .success(.number(number)) }
        return .success(.string(text))
    }

    /// `0x1F` and `0o17`.
    private static func prefixedInteger(_ text: String) -> UInt64? {
        if text.hasPrefix("0x") { return unsignedInteger(text.dropFirst(2), radix: 16) }
        if text.hasPrefix("0o") { return unsignedInteger(text.dropFirst(2), radix: 8) }
        return nil
    }

    private static func unsignedInteger(_ digits: Substring, radix: Int) -> UInt64? {
        // The initialiser also accepts a sign.
        guard let first = digits.first, first != "+", first != "-" else { return nil }
        return UInt64(digits, radix: radix)
    }

    /// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?` as a JSON number; nil for other text.
    private static func jsonNumber(_ text: String, unsigned: Substring) -> String? {
        var rest = unsigned.utf8[...]
        let whole = takeDigits(&rest)
        var fraction = ""
        if rest.first == UInt8(ascii: ".") {
            rest.removeFirst()
            fraction = takeDigits(&rest)
            guard !whole.isEmpty || !fraction.isEmpty else { return nil }
        } else if whole.isEmpty {
            return nil
        }
        var exponent = ""
        if let mark = rest.first, mark == UInt8(ascii: "e") || mark == UInt8(ascii: "E") {
            rest.removeFirst()
            var sign = ""
            if let first = rest.first, first == UInt8(ascii: "+") || first == UInt8(ascii: "-") {
                sign = first == UInt8(ascii: "-") ? "-" : ""
                rest.removeFirst()
            }
            let digits = takeDigits(&rest)
            guard !digits.isEmpty else { return nil }
            exponent = "e" + sign + digits
        }
        guard rest.isEmpty else { return nil }
        let significant = whole.drop { $0 == "0" }
        return (text.hasPrefix("-") ? "-" : "")
            + (significant.isEmpty ? "0" : significant)
            + (fraction.isEmpty ? "" : "." + fraction)
            + exponent
    }

    private static func takeDigits(_ rest: inout Substring.UTF8View) -> String {
        var digits = ""
        while let byte = rest.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
            digits.unicodeScalars.append(Unicode.Scalar(byte))
            rest.removeFirst()
        }
        return digits
    }
}
