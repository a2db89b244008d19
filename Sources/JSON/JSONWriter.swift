// SPDX-License-Identifier: Apache-2.0

/// Writes JSON without white space.
///
/// ```swift
/// let body = JSONWriter.object { object in
///     object.append("kind", kind)
///     object.append("environment") { $0.append("locale", locale) }
/// }
/// ```
package struct JSONWriter {
    package private(set) var bytes: [UInt8] = []

    package init(capacity: Int = 256) {
        bytes.reserveCapacity(capacity)
    }

    /// The bytes of one object.
    ///
    /// - Parameter capacity: expected number of bytes.
    package static func object(capacity: Int = 256, _ members: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(capacity: capacity)
        writer.appendObject(members)
        return writer.bytes
    }

    // MARK: Members of an object

    /// Appends a member with a string; nothing for nil.
    package mutating func append(_ key: StaticString, _ text: String?) {
        guard let text else { return }
        appendKey(key)
        append(text)
    }

    /// Appends a member with an integer; nothing for nil.
    package mutating func append(_ key: StaticString, _ number: Int64?) {
        if let number { append(key, json: String(number).utf8) }
    }

    /// Appends a member with a value.
    package mutating func append(_ key: StaticString, value: JSONValue) {
        appendKey(key)
        append(value)
    }

    /// Appends a member with an object.
    package mutating func append(_ key: StaticString, _ members: (inout JSONWriter) -> Void) {
        appendKey(key)
        appendObject(members)
    }

    /// Appends a member whose value is already JSON.
    package mutating func append(_ key: StaticString, json value: some Sequence<UInt8>) {
        appendKey(key)
        bytes.append(contentsOf: value)
    }

    /// Appends the members of an object that is already JSON, without white space around it.
    package mutating func appendMembers(of object: some Collection<UInt8>) {
        guard object.count > 2 else { return }
        appendSeparator()
        bytes.append(contentsOf: object.dropFirst().prefix(object.count - 2))
    }

    private mutating func appendKey(_ key: StaticString) {
        appendSeparator()
        bytes.append(UInt8(ascii: "\""))
        unsafe bytes.append(contentsOf: UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
        bytes.append(contentsOf: "\":".utf8)
    }

    /// Appends a comma unless an array, an object or a member has just begun.
    private mutating func appendSeparator() {
        switch bytes.last {
        case nil, UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: ":"): break
        default: bytes.append(UInt8(ascii: ","))
        }
    }

    // MARK: Values

    /// Appends an object, with a comma before it if it is not the first element of an array.
    package mutating func appendObject(_ members: (inout JSONWriter) -> Void) {
        appendSeparator()
        bytes.append(UInt8(ascii: "{"))
        members(&self)
        bytes.append(UInt8(ascii: "}"))
    }

    /// Appends a member with an array of values.
    package mutating func appendArray(_ key: StaticString, _ elements: (inout JSONWriter) -> Void) {
        appendKey(key)
        bytes.append(UInt8(ascii: "["))
        elements(&self)
        bytes.append(UInt8(ascii: "]"))
    }

    /// Appends a value without white space: members and numbers as they were written, or in the canonical form of RFC
    /// 8785, with members sorted by UTF-16 code units and numbers as in ECMAScript.
    package mutating func append(_ value: JSONValue, isCanonical: Bool = false) {
        switch value {
        case .null: bytes.append(contentsOf: "null".utf8)
        case .bool(let value): bytes.append(contentsOf: (value ? "true" : "false").utf8)
        case .number(let number): bytes.append(contentsOf: (isCanonical ? number.canonical : number.text).utf8)
        case .string(let text): append(text)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for index in elements.indices {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                append(elements[index], isCanonical: isCanonical)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let object):
            bytes.append(UInt8(ascii: "{"))
            let members = isCanonical ? object.canonicalMembers : object.members
            for (index, member) in members.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                append(member.key)
                bytes.append(UInt8(ascii: ":"))
                append(member.value, isCanonical: isCanonical)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    /// Appends a string in quotes, with exactly the escapes of RFC 8785.
    private mutating func append(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { utf8 in
            var start = 0
            for index in utf8.indices {
                guard unsafe Self.mustEscape(utf8[index]) else { continue }
                unsafe bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start..<index]))
                unsafe Self.append(scalarByte: utf8[index], to: &bytes)
                start = index + 1
            }
            unsafe bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start...]))
        }
        bytes.append(UInt8(ascii: "\""))
    }

    @inline(__always)
    private static func mustEscape(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x22 || byte == 0x5C }

    /// Appends a byte of a string's UTF-8, with its escape if it must have one.
    static func append(scalarByte byte: UInt8, to out: inout [UInt8]) {
        guard mustEscape(byte) else { return out.append(byte) }
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
    /// The document without white space, as bytes.
    package var encoded: [UInt8] {
        var writer = JSONWriter()
        writer.append(self)
        return writer.bytes
    }

    /// The RFC 8785 form.
    package var canonical: String { String(decoding: canonicalBytes, as: UTF8.self) }

    /// The RFC 8785 form as bytes.
    package var canonicalBytes: [UInt8] {
        var writer = JSONWriter()
        writer.append(self, isCanonical: true)
        return writer.bytes
    }

    /// Indented JSON: two spaces per level, short arrays and objects on one line.
    package var pretty: String {
        var text = ""
        appendPretty(to: &text, indentation: 0)
        return text
    }

    private func appendPretty(to text: inout String, indentation: Int) {
        let lineLength = 100
        let compact = String(decoding: encoded, as: UTF8.self)
        let isLong = indentation + compact.utf8.count > lineLength
        let inner = String(repeating: " ", count: indentation + 2)
        switch self {
        case .object(let object) where !object.isEmpty && isLong:
            text += "{"
            for (index, member) in object.members.enumerated() {
                text += (index == 0 ? "\n" : ",\n") + inner
                text += String(decoding: JSONValue.string(member.key).encoded, as: UTF8.self) + ": "
                member.value.appendPretty(to: &text, indentation: indentation + 2)
            }
            text += "\n" + String(repeating: " ", count: indentation) + "}"
        case .array(let elements) where !elements.isEmpty && isLong:
            text += "["
            for (index, element) in elements.enumerated() {
                text += (index == 0 ? "\n" : ",\n") + inner
                element.appendPretty(to: &text, indentation: indentation + 2)
            }
            text += "\n" + String(repeating: " ", count: indentation) + "]"
        default:
            text += compact
        }
    }
}
