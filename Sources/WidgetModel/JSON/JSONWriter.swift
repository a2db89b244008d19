/// Appends JSON to bytes.
package enum JSONWriter {
    /// Appends a string in quotes, escaping what RFC 8785 escapes and nothing else.
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

extension JSONValue {
    /// Appends the document without white space, members in their order and numbers as they were written.
    package func write(to out: inout [UInt8]) {
        write(to: &out, canonical: false)
    }

    /// The document without white space, as bytes.
    package var encoded: [UInt8] {
        var out: [UInt8] = []
        write(to: &out)
        return out
    }

    /// The RFC 8785 form: members sorted by UTF-16 code units, numbers as ECMAScript writes them.
    package var canonical: String {
        String(decoding: canonicalBytes, as: UTF8.self)
    }

    /// The RFC 8785 form as bytes.
    package var canonicalBytes: [UInt8] {
        var out: [UInt8] = []
        write(to: &out, canonical: true)
        return out
    }

    func write(to out: inout [UInt8], canonical: Bool) {
        switch self {
        case .null:
            out.append(contentsOf: "null".utf8)
        case .bool(let value):
            out.append(contentsOf: (value ? "true" : "false").utf8)
        case .number(let number):
            out.append(contentsOf: (canonical ? number.canonical : number.text).utf8)
        case .string(let text):
            JSONWriter.append(text, to: &out)
        case .array(let elements):
            out.append(UInt8(ascii: "["))
            for index in elements.indices {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                elements[index].write(to: &out, canonical: canonical)
            }
            out.append(UInt8(ascii: "]"))
        case .object(let object):
            let members =
                canonical
                ? object.members.sorted { UTF16Order.compare(Array($0.key.utf8), Array($1.key.utf8)) < 0 }
                : object.members
            out.append(UInt8(ascii: "{"))
            for index in members.indices {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                JSONWriter.append(members[index].key, to: &out)
                out.append(UInt8(ascii: ":"))
                members[index].value.write(to: &out, canonical: canonical)
            }
            out.append(UInt8(ascii: "}"))
        }
    }
}
