import WidgetModel

/// Writes JSON straight into bytes: a load test asks the sample provider for tens of thousands of timelines a second.
struct SampleWriter {
    private(set) var bytes: [UInt8] = []
    /// Whether a comma is due before what comes next.
    private var needsComma = false

    init(reserving count: Int) {
        bytes.reserveCapacity(count)
    }

    mutating func beginObject() { begin("{") }
    mutating func endObject() { end("}") }
    mutating func beginArray() { begin("[") }
    mutating func endArray() { end("]") }

    /// The name of the next value; it must need no escapes.
    mutating func key(_ name: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        name.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    mutating func string(_ text: String) {
        separate()
        JSONWriter.append(text, to: &bytes)
        needsComma = true
    }

    mutating func integer(_ value: Int) {
        separate()
        bytes.append(contentsOf: String(value).utf8)
        needsComma = true
    }

    /// `hundredths` / 100 with two digits: money, shares.
    mutating func hundredths(_ value: Int) {
        separate()
        appendHundredths(value)
        needsComma = true
    }

    /// Money as text, which keeps its two digits wherever it is read.
    mutating func amount(_ cents: Int) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        appendHundredths(cents)
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    mutating func date(_ time: Timestamp) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: time.rfc3339.utf8)
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    mutating func bool(_ value: Bool) {
        separate()
        bytes.append(contentsOf: (value ? "true" : "false").utf8)
        needsComma = true
    }

    private mutating func appendHundredths(_ value: Int) {
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        let (whole, rest) = value.magnitude.quotientAndRemainder(dividingBy: 100)
        bytes.append(contentsOf: String(whole).utf8)
        bytes.append(UInt8(ascii: "."))
        bytes.append(UInt8(ascii: "0") + UInt8(rest / 10))
        bytes.append(UInt8(ascii: "0") + UInt8(rest % 10))
    }

    private mutating func begin(_ bracket: Unicode.Scalar) {
        separate()
        bytes.append(UInt8(ascii: bracket))
        needsComma = false
    }

    private mutating func end(_ bracket: Unicode.Scalar) {
        bytes.append(UInt8(ascii: bracket))
        needsComma = true
    }

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
    }
}
