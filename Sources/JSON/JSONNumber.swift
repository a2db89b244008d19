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
        text = ES6Number.format(value)
    }

    /// The nearest double; always finite.
    package var double: Double { Double(text) ?? 0 }

    /// The value as an integer; nil when it has a fraction or does not fit.
    package var int64: Int64? {
        if let exact = Int64(text) { return exact }
        return Int64(exactly: double)
    }

    /// The literal that RFC 8785 prescribes: ECMAScript's `Number::toString` of the double.
    package var canonical: String { ES6Number.format(double) }

    package static func == (left: JSONNumber, right: JSONNumber) -> Bool {
        left.text == right.text || left.double == right.double
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(double)
    }
}
