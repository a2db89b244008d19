/// Appends JSON to bytes.
package enum JSONWriter {
    /// Appends a string in quotes, with exactly the escapes of RFC 8785.
    package static func append(_ text: String, to out: inout [UInt8]) {
        out.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { bytes in
            var start = 0
            for index in bytes.indices where mustEscape(bytes[index]) {
                out.append(contentsOf: UnsafeBufferPointer(rebasing: bytes[start..<index]))
                appendEscape(of: bytes[index], to: &out)
                start = index + 1
            }
            out.append(contentsOf: UnsafeBufferPointer(rebasing: bytes[start...]))
        }
        out.append(UInt8(ascii: "\""))
    }

    /// Appends the inside of a string.
    static func appendBody(_ utf8: some Sequence<UInt8>, to out: inout [UInt8]) {
        for byte in utf8 {
            if mustEscape(byte) { appendEscape(of: byte, to: &out) } else { out.append(byte) }
        }
    }

    private static func mustEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == 0x22 || byte == 0x5C
    }

    private static func appendEscape(of byte: UInt8, to out: inout [UInt8]) {
        out.append(UInt8(ascii: "\\"))
        switch byte {
        case 0x22, 0x5C: out.append(byte)
        case 0x08: out.append(UInt8(ascii: "b"))
        case 0x09: out.append(UInt8(ascii: "t"))
        case 0x0A: out.append(UInt8(ascii: "n"))
        case 0x0C: out.append(UInt8(ascii: "f"))
        case 0x0D: out.append(UInt8(ascii: "r"))
        default:
            out.append(contentsOf: "u00".utf8)
            out.append(byte < 0x10 ? UInt8(ascii: "0") : UInt8(ascii: "1"))
            let nibble = byte & 15
            out.append(nibble < 10 ? 48 + nibble : 87 + nibble)
        }
    }
}

/// Writes one JSON object, member by member.
package struct JSONObjectWriter {
    private var bytes: [UInt8] = []

    /// - Parameter capacity: expected number of bytes.
    package init(capacity: Int = 256) {
        bytes.reserveCapacity(capacity)
        bytes.append(UInt8(ascii: "{"))
    }

    /// Appends a string; nothing for nil.
    package mutating func append(_ key: StaticString, _ text: String?) {
        guard let text else { return }
        appendKey(key)
        JSONWriter.append(text, to: &bytes)
    }

    /// Appends an integer; nothing for nil.
    package mutating func append(_ key: StaticString, _ number: Int64?) {
        if let number { append(key, json: String(number).utf8) }
    }

    /// Appends a value that is already JSON.
    package mutating func append(_ key: StaticString, json value: some Sequence<UInt8>) {
        appendKey(key)
        bytes.append(contentsOf: value)
    }

    /// Appends the members of an object that is already JSON, without white space.
    package mutating func appendMembers(of object: [UInt8]) {
        guard object.count > 2 else { return }
        appendSeparator()
        bytes.append(contentsOf: object[1..<(object.count - 1)])
    }

    /// The object.
    package consuming func finish() -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private mutating func appendKey(_ key: StaticString) {
        appendSeparator()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
        bytes.append(contentsOf: "\":".utf8)
    }

    private mutating func appendSeparator() {
        if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
    }
}

extension JSONValue {
    /// Appends the document without white space: members and numbers as they were written, or in the canonical form of
    /// RFC 8785, with members sorted by UTF-16 code units and numbers as in ECMAScript.
    package func write(to out: inout [UInt8], isCanonical: Bool = false) {
        switch self {
        case .null:
            out.append(contentsOf: "null".utf8)
        case .bool(let value):
            out.append(contentsOf: (value ? "true" : "false").utf8)
        case .number(let number):
            out.append(contentsOf: (isCanonical ? number.canonical : number.text).utf8)
        case .string(let text):
            JSONWriter.append(text, to: &out)
        case .array(let elements):
            out.append(UInt8(ascii: "["))
            for index in elements.indices {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                elements[index].write(to: &out, isCanonical: isCanonical)
            }
            out.append(UInt8(ascii: "]"))
        case .object(let object):
            out.append(UInt8(ascii: "{"))
            let members = isCanonical ? object.canonicalMembers : object.members
            for (index, member) in members.enumerated() {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                JSONWriter.append(member.key, to: &out)
                out.append(UInt8(ascii: ":"))
                member.value.write(to: &out, isCanonical: isCanonical)
            }
            out.append(UInt8(ascii: "}"))
        }
    }

    /// The document without white space, as bytes.
    package var encoded: [UInt8] {
        var out: [UInt8] = []
        write(to: &out)
        return out
    }

    /// The RFC 8785 form.
    package var canonical: String { String(decoding: canonicalBytes, as: UTF8.self) }

    /// The RFC 8785 form as bytes.
    package var canonicalBytes: [UInt8] {
        var out: [UInt8] = []
        write(to: &out, isCanonical: true)
        return out
    }
}
