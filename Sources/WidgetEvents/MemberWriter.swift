internal import WidgetModel

/// Writes the members of one JSON object.
struct MemberWriter {
    private var isEmpty = true

    mutating func append(_ key: StaticString, _ text: String, to out: inout [UInt8]) {
        appendKey(key, to: &out)
        JSONWriter.append(text, to: &out)
    }

    /// Appends a value that is JSON already.
    mutating func append(_ key: StaticString, raw value: some Sequence<UInt8>, to out: inout [UInt8]) {
        appendKey(key, to: &out)
        out.append(contentsOf: value)
    }

    /// Closes the object.
    mutating func end(_ out: inout [UInt8]) {
        if isEmpty { out.append(UInt8(ascii: "{")) }
        out.append(UInt8(ascii: "}"))
    }

    private mutating func appendKey(_ key: StaticString, to out: inout [UInt8]) {
        out.append(isEmpty ? UInt8(ascii: "{") : UInt8(ascii: ","))
        isEmpty = false
        out.append(UInt8(ascii: "\""))
        out.append(contentsOf: UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
        out.append(UInt8(ascii: "\""))
        out.append(UInt8(ascii: ":"))
    }
}
