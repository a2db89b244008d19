import WidgetModel

/// Writes JSON straight into bytes: a load test asks the sample provider for tens of thousands of timelines a second.
struct SampleWriter {
    private(set) var bytes: [UInt8] = []
    /// Whether a comma is due before what comes next.
    private var needsComma = false
    /// The day that was written last, as `2020-06-22T`: the dates of a timeline have few days.
    private var day: Int64?
    private var dayText: [UInt8] = []

    init(reserving count: Int) {
        bytes.reserveCapacity(count)
    }

    mutating func beginObject() { begin("{") }
    mutating func endObject() { end("}") }
    mutating func beginArray() { begin("[") }
    mutating func endArray() { end("]") }

    /// Begins a member that is an object.
    mutating func beginObject(_ name: StaticString) {
        key(name)
        beginObject()
    }

    /// Begins a member that is an array.
    mutating func beginArray(_ name: StaticString) {
        key(name)
        beginArray()
    }

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
        if text.utf8.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) {
            bytes.append(UInt8(ascii: "\""))
            bytes.append(contentsOf: text.utf8)
            bytes.append(UInt8(ascii: "\""))
        } else {
            JSONWriter.append(text, to: &bytes)
        }
        needsComma = true
    }

    mutating func integer(_ value: Int) {
        separate()
        if (0...9).contains(value) {
            bytes.append(UInt8(ascii: "0") + UInt8(value))
        } else {
            bytes.append(contentsOf: String(value).utf8)
        }
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
        let startOfDay = time.startOfDay.microseconds
        let (second, fraction) = (time.microseconds - startOfDay).quotientAndRemainder(dividingBy: 1_000_000)
        if fraction == 0 {
            if day != startOfDay {
                day = startOfDay
                dayText = Array(time.startOfDay.rfc3339.utf8.prefix { $0 != UInt8(ascii: "T") }) + "T".utf8
            }
            bytes.append(contentsOf: dayText)
            appendTwoDigits(second / 3_600)
            bytes.append(UInt8(ascii: ":"))
            appendTwoDigits(second / 60 % 60)
            bytes.append(UInt8(ascii: ":"))
            appendTwoDigits(second % 60)
            bytes.append(UInt8(ascii: "Z"))
        } else {
            bytes.append(contentsOf: time.rfc3339.utf8)
        }
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    /// JSON that was written before: what a timeline's entries have in common.
    mutating func raw(_ json: [UInt8]) {
        separate()
        bytes.append(contentsOf: json)
        needsComma = true
    }

    mutating func member(_ name: StaticString, _ text: String) {
        key(name)
        string(text)
    }

    mutating func member(_ name: StaticString, _ value: Int) {
        key(name)
        integer(value)
    }

    mutating func member(_ name: StaticString, _ time: Timestamp) {
        key(name)
        date(time)
    }

    mutating func member(_ name: StaticString, hundredths value: Int) {
        key(name)
        hundredths(value)
    }

    mutating func member(_ name: StaticString, amount cents: Int) {
        key(name)
        amount(cents)
    }

    mutating func member(_ name: StaticString, raw json: [UInt8]) {
        key(name)
        raw(json)
    }

    private mutating func appendHundredths(_ value: Int) {
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        let (whole, rest) = value.magnitude.quotientAndRemainder(dividingBy: 100)
        if whole < 10 {
            bytes.append(UInt8(ascii: "0") + UInt8(whole))
        } else {
            bytes.append(contentsOf: String(whole).utf8)
        }
        bytes.append(UInt8(ascii: "."))
        appendTwoDigits(Int64(rest))
    }

    private mutating func appendTwoDigits(_ value: Int64) {
        bytes.append(UInt8(ascii: "0") + UInt8(value / 10))
        bytes.append(UInt8(ascii: "0") + UInt8(value % 10))
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
