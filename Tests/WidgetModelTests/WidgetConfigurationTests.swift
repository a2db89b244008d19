// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.timeLimit(.patience))
struct WidgetConfigurationTests {
    private func configuration(_ text: String) throws -> WidgetConfiguration {
        try WidgetConfiguration(json: bytes(text))
    }

    @Test func canonical() throws {
        #expect(
            try configuration(#" { "b" : 1.50, "a" : ["x", null, true] } "#).canonical
                == #"{"a":["x",null,true],"b":1.5}"#)
        #expect(try configuration("{ }") == .empty)
        #expect(WidgetConfiguration.empty.canonical == "{}")
        #expect(WidgetConfiguration.empty.isEmpty)
        #expect(try !configuration(#"{"":0}"#).isEmpty)
        #expect(try WidgetConfiguration(["card": "acme"]).value == ["card": "acme"])
    }

    @Test(arguments: [
        ("[]", "", "expected an object, found an array"), ("null", "", "expected an object, found null"),
        (#"{"a":{"b":{}}}"#, "/a/b", "expected a scalar, found an object"),
        (#"{"a":[1,[2]]}"#, "/a/1", "expected a scalar, found an array"),
        (#"{"a":[{"b":[]}]}"#, "/a/0/b", "expected a scalar, found an array"),
        (#"{"b":1,"a":["x\u0000"]}"#, "/a", "must not contain U+0000"),
        (#"{"a\u0000":1}"#, "/a ", "must not contain U+0000"),
        ("{}{}", "", "unexpected '{', expected the end of the document"),
        (#"{"a":1,"a":1}"#, "/a", "duplicate member \"a\""),
    ])
    func refused(text: String, pointer: String, message: String) {
        #expect(throws: ModelError(message: message, pointer: pointer)) { try configuration(text) }
    }

    @Test func limits() throws {
        let longest = String(repeating: "x", count: WidgetConfiguration.maximumBytes - 8)
        #expect(try configuration("{\"a\":\"\(longest)\"}").canonical.utf8.count == 16_384)
        #expect(throws: ModelError(message: "must be at most 16384 bytes, is 16385")) {
            try configuration("{\"a\":\"\(longest)x\"}")
        }
        // An escaped backslash before u0000 is not U+0000.
        #expect(try configuration(#"{"a":"\\u0000"}"#).canonical == #"{"a":"\\u0000"}"#)
    }

    @Test func equalInAnyOrderOfMembers() throws {
        var generator = JSONGenerator(seed: 11)
        for _ in 0..<1000 {
            let flat = generator.flat()
            guard !flat.canonical.hasEscapedNull else { continue }
            let one = try WidgetConfiguration(flat)
            let other = try WidgetConfiguration(generator.shuffled(flat))
            #expect(one == other)
            #expect(one.hashValue == other.hashValue)
            #expect(one.canonical == flat.canonical)
            #expect(try WidgetConfiguration(one.value) == one)
        }
        #expect(try configuration("{\"a\":\"\u{E9}\"}") != configuration("{\"a\":\"e\u{301}\"}"))
    }
}
