// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import JSON

@Suite(.tags(.json), .timeLimit(.patience))
struct JSONParsingTests {
    @Test(
        arguments: [
            ("null", JSONValue.null), (" true ", true), ("\t\r\nfalse", false), ("\"\"", ""), ("\"a\"", "a"),
            ("[]", []), ("[ ]", []), ("{}", [:]), ("{ }", [:]), ("[1, 2 ,3]", [1, 2, 3]),
            (#"{"a":{"b":[null]}}"#, ["a": ["b": [nil]]]),
            (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"),
            (#""\u0041\u00e9\u20AC\ud83d\uDE00""#, "Aé€😀"), ("\"é€😀\u{7F}\u{10FFFF}\"", "é€😀\u{7F}\u{10FFFF}"),
        ] as [(String, JSONValue)])
    func valid(text: String, value: JSONValue) throws {
        #expect(try JSONValue.parse(text) == value)
    }

    @Test(arguments: [
        "0", "-0", "1", "-1", "10", "0.5", "-0.5e10", "1e5", "1E-5", "1e+5", "100000000000000000000000000000", "0e-999",
        "1.7976931348623157e308", "9007199254740992", "1e300", "0.1000000000000000055511151231257827",
    ])
    func numbersAreKeptAsWritten(text: String) throws {
        guard case .number(let number) = try JSONValue.parse(text) else {
            Issue.record("not a number")
            return
        }
        #expect(number.text == text)
        #expect(number.double == Double(text))
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        var text: [UInt8]
        var kind: JSONError.Kind
        var offset: Int
        var pointer: String
        var message: String

        init(_ text: String, _ kind: JSONError.Kind, _ offset: Int, _ pointer: String, _ message: String) {
            self.init(bytes(text), kind, offset, pointer, message)
        }

        init(_ text: [UInt8], _ kind: JSONError.Kind, _ offset: Int, _ pointer: String, _ message: String) {
            (self.text, self.kind, self.offset, self.pointer, self.message) = (text, kind, offset, pointer, message)
        }

        var testDescription: String { String(decoding: text.prefix(40), as: UTF8.self) }
    }

    @Test(arguments: [
        Bad("", .syntax, 0, "", "unexpected end of input, expected a value"),
        Bad("  ", .syntax, 2, "", "unexpected end of input, expected a value"),
        Bad("\u{FEFF}{}", .syntax, 0, "", "a byte order mark is not allowed"),
        Bad("{} x", .syntax, 3, "", "unexpected 'x', expected the end of the document"),
        Bad("nul", .syntax, 3, "", "unexpected end of input, expected null"),
        Bad("nulL", .syntax, 0, "", "invalid literal, expected null"),
        Bad("True", .syntax, 0, "", "unexpected 'T', expected a value"),
        Bad("{", .syntax, 1, "", "unexpected end of input, expected a member name or '}'"),
        Bad("{,}", .syntax, 1, "", "unexpected ',', expected a member name or '}'"),
        Bad(#"{"a":1,}"#, .syntax, 7, "", "unexpected '}', expected a member name"),
        Bad(#"{"a" 1}"#, .syntax, 5, "/a", "unexpected '1', expected ':'"),
        Bad(#"{"a":}"#, .syntax, 5, "/a", "unexpected '}', expected a value"),
        Bad(#"{"a":{"b":[1,{"c":x}]}}"#, .syntax, 18, "/a/b/1/c", "unexpected 'x', expected a value"),
        Bad(#"{"a":1 "b":2}"#, .syntax, 7, "/a", "unexpected '\"', expected ',' or '}'"),
        Bad("{a:1}", .syntax, 1, "", "unexpected 'a', expected a member name or '}'"),
        Bad("[1,]", .syntax, 3, "/1", "unexpected ']', expected a value"),
        Bad("[1 2]", .syntax, 3, "/0", "unexpected '2', expected ',' or ']'"),
        Bad("[1}", .syntax, 2, "/0", "unexpected '}', expected ',' or ']'"),
        Bad("[", .syntax, 1, "/0", "unexpected end of input, expected a value"),
        Bad("01", .syntax, 0, "", "number with a leading zero"),
        Bad("-", .syntax, 1, "", "unexpected end of input, expected a digit"),
        Bad("+1", .syntax, 0, "", "unexpected '+', expected a value"),
        Bad("1.", .syntax, 2, "", "unexpected end of input, expected a digit"),
        Bad(".5", .syntax, 0, "", "unexpected '.', expected a value"),
        Bad("1e", .syntax, 2, "", "unexpected end of input, expected a digit"),
        Bad("[NaN]", .syntax, 1, "/0", "unexpected 'N', expected a value"),
        Bad("[1e400]", .numberOutOfRange, 1, "/0", "the number 1e400 cannot be kept exactly; use a string"),
        Bad(
            "[-1e99999999999999999999]", .numberOutOfRange, 1, "/0",
            "the number -1e99999999999999999999 cannot be kept exactly; use a string"),
        Bad(
            #"{"a":9007199254740993}"#, .numberOutOfRange, 5, "/a",
            "the number 9007199254740993 cannot be kept exactly; use a string"),
        Bad(
            "-9007199254740993.0", .numberOutOfRange, 0, "",
            "the number -9007199254740993.0 cannot be kept exactly; use a string"),
        Bad(
            "9.007199254740993e15", .numberOutOfRange, 0, "",
            "the number 9.007199254740993e15 cannot be kept exactly; use a string"),
        Bad("1e-400", .numberOutOfRange, 0, "", "the number 1e-400 cannot be kept exactly; use a string"),
        Bad(
            "[" + String(repeating: "9", count: 50) + "]", .numberOutOfRange, 1, "/0",
            "the number \(String(repeating: "9", count: 40))… cannot be kept exactly; use a string"),
        Bad("\"abc", .syntax, 0, "", "unterminated string"),
        Bad("\"abc\\", .syntax, 4, "", "unterminated string"),
        Bad("[\"a\nb\"]", .syntax, 3, "/0", "unescaped control character byte 0x0A in a string"),
        Bad(#"["\x"]"#, .syntax, 2, "/0", "invalid escape \\'x'"),
        Bad(#"["\u12g4"]"#, .syntax, 2, "/0", "invalid escape, expected four hexadecimal digits after \\u"),
        Bad(#"["\u12"#, .syntax, 2, "/0", "invalid escape, expected four hexadecimal digits after \\u"),
        Bad(#"["\ud800"]"#, .loneSurrogate, 2, "/0", "escape of a high surrogate without its low one"),
        Bad(#"["\ud800\u0041"]"#, .loneSurrogate, 2, "/0", "escape of a high surrogate without its low one"),
        Bad(#"["ok\udc00"]"#, .loneSurrogate, 4, "/0", "escape of a low surrogate without its high one"),
        Bad(#"{"a":1,"a":2}"#, .duplicateKey, 7, "/a", "duplicate member \"a\""),
        Bad(#"{"x":{"a/b":1,"c":2,"a\u002fb":2}}"#, .duplicateKey, 20, "/x/a~1b", "duplicate member \"a/b\""),
        Bad([0x22, 0xFF, 0x22], .invalidUTF8, 1, "", "invalid UTF-8 in a string"),
        Bad([0x22, 0xC0, 0x80, 0x22], .invalidUTF8, 1, "", "invalid UTF-8 in a string"),
        Bad([0x22, 0xED, 0xA0, 0x80, 0x22], .invalidUTF8, 1, "", "invalid UTF-8 in a string"),
        Bad([0x22, 0xF4, 0x90, 0x80, 0x80, 0x22], .invalidUTF8, 1, "", "invalid UTF-8 in a string"),
        Bad([0x22, 0xE2, 0x82, 0x22], .invalidUTF8, 1, "", "invalid UTF-8 in a string"),
        Bad([0x22, 0xE2], .invalidUTF8, 1, "", "invalid UTF-8 in a string"),
        Bad(bytes(#"{"k":"#) + [0x80] + bytes("}"), .invalidUTF8, 5, "/k", "invalid UTF-8, expected a value"),
        Bad(bytes(#"{""#) + [0x80] + bytes(#"":1}"#), .invalidUTF8, 2, "", "invalid UTF-8 in a string"),
        Bad("[é]", .syntax, 1, "/0", "unexpected byte 0xC3, expected a value"),
    ])
    func invalid(bad: Bad) {
        let expected = JSONError(
            kind: bad.kind, message: bad.message, byteOffset: bad.offset, pointer: bad.pointer)
        #expect(throws: expected) { try JSONValue.parse(bad.text) }
        // Skipped and canonicalised values are validated as strictly as parsed ones.
        #expect(throws: expected) {
            var reader = JSONReader(bad.text)
            try reader.skip()
            try reader.finish()
        }
        #expect(throws: expected) {
            var reader = JSONReader(bad.text)
            var out: [UInt8] = []
            try reader.canonicalize(into: &out)
            try reader.finish()
        }
        // The same within a larger array of bytes: pointers and offsets must not leave the slice.
        let shifted = bytes("\"{[") + bad.text + bytes("\"}] 1")
        #expect(throws: expected) { try JSONValue.parse(shifted, in: 3..<(3 + bad.text.count)) }
    }

    @Test func duplicatesAmongManyKeys() {
        let keys = (0..<1000).map { "\"key\($0)\":0" }
        #expect(throws: Never.self) { try JSONValue.parse("{\(keys.joined(separator: ","))}") }
        for (first, second) in [(0, 999), (15, 16), (16, 17), (500, 998)] {
            var changed = keys
            changed[second] = keys[first]
            #expect {
                try JSONValue.parse("{\"in\":{\(changed.joined(separator: ","))}}")
            } throws: { error in
                let error = error as? JSONError
                return error?.kind == .duplicateKey && error?.pointer == "/in/key\(first)"
            }
        }
    }

    @Test func canonicallyEquivalentKeysAreDifferent() throws {
        let value = try JSONValue.parse("{\"é\":1,\"e\u{301}\":2}")
        #expect(value["é"] == 1)
        #expect(value["e\u{301}"] == 2)
    }

    @Test func depth() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        #expect(throws: Never.self) { try JSONValue.parse(nested(64)) }
        #expect {
            try JSONValue.parse(nested(65))
        } throws: { error in
            let error = error as? JSONError
            return error?.kind == .tooDeep && error?.byteOffset == 64
                && error?.message == "nested deeper than 64 levels"
        }
        #expect(throws: JSONError.self) { try JSONValue.parse(bytes("[[1]]"), maximumDepth: 1) }
        #expect(throws: JSONError.self) { try JSONValue.parse(String(repeating: "[", count: 1_000_000)) }
    }

    @Test func rangesBeyondTheBytesAreCut() {
        #expect(throws: JSONError.self) { try JSONValue.parse(bytes("1"), in: 5..<9) }
        #expect(throws: Never.self) { try JSONValue.parse(bytes("[1]"), in: 0..<9) }
    }

    @Test("A key matches the literal of its bytes, wherever it stands and however it is written")
    func keys() throws {
        let names = [
            "", "a", "app", "audience", "audience2", "configuration", "exactly sixteen.", "significantTimeChange",
            "exactly twenty-four char", "exactly twenty-four chars", "é", "audience\u{0}",
        ]
        for name in names {
            let plain = JSONValue.object([name: 1]).encoded
            let escaped = bytes(
                "{\"" + name.utf16.map { "\\u" + String(UInt32($0) + 0x10000, radix: 16).dropFirst() }.joined()
                    + "\":1}")
            for document in [plain, escaped, plain + bytes(String(repeating: " ", count: 30))] {
                var reader = JSONReader(document)
                try reader.beginObject()
                let key = try #require(try reader.nextKey())
                #expect(reader.text(of: key) == name)
                let found =
                    switch key {
                    case "": ""
                    case "a": "a"
                    case "app": "app"
                    case "audience": "audience"
                    case "audience2": "audience2"
                    case "configuration": "configuration"
                    case "exactly sixteen.": "exactly sixteen."
                    case "significantTimeChange": "significantTimeChange"
                    case "exactly twenty-four char": "exactly twenty-four char"
                    case "é": "é"
                    case "audience\u{0}": "audience\u{0}"
                    default: "another"
                    }
                #expect(found == (name.utf8.count > 24 ? "another" : name))
            }
        }
    }

    @Test("Values that a closure reads are written in canonical form")
    func canonicalFormOfWhatIsRead() throws {
        var reader = JSONReader(bytes(#"[ {"b" : [1.0, "\/"], "a": {} }, 2]"#))
        var out: [UInt8] = []
        try reader.beginArray()
        _ = try reader.nextElement()
        let names = try reader.canonicalize(into: &out) { (reader) throws(JSONError) in
            var names: [String] = []
            try reader.beginObject()
            while let key = try reader.nextKey() {
                names.append(reader.text(of: key))
                try reader.skip()
            }
            return names
        }
        #expect(names == ["b", "a"])
        #expect(String(decoding: out, as: UTF8.self) == #"{"a":{},"b":[1,"/"]}"#)
        #expect(try reader.nextElement())
        #expect(try reader.number().int64 == 2)
    }

    @Test func readerNamesWhatItFound() {
        var reader = JSONReader(bytes(#"{"a":[true]}"#))
        #expect(
            throws: JSONError(
                kind: .wrongType, message: "expected a string, found a boolean", byteOffset: 6, pointer: "/a/0")
        ) {
            try reader.beginObject()
            _ = try reader.nextKey()
            try reader.beginArray()
            _ = try reader.nextElement()
            _ = try reader.string()
        }
    }
}
