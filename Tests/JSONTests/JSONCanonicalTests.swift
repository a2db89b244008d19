// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import JSON

/// Examples of RFC 8785, and further cases.
@Suite(.tags(.json), .timeLimit(.patience))
struct JSONCanonicalTests {
    /// Appendix B.
    @Test(arguments: [
        (0x0000_0000_0000_0000 as UInt64, "0"), (0x8000_0000_0000_0000, "0"), (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"), (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"), (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"), (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"), (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"), (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"), (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"), (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"), (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"), (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"), (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ])
    func numbers(bits: UInt64, expected: String) {
        let number = JSONNumber(Double(bitPattern: bits))
        #expect(number?.text == expected)
        #expect(number?.canonical == expected)
    }

    @Test func numbersThatAreNone() {
        #expect(JSONNumber(.nan) == nil)
        #expect(JSONNumber(.infinity) == nil)
        #expect(JSONNumber("1e400") == nil)
        #expect(JSONNumber("1e-400") == nil)
        #expect(JSONNumber("9007199254740993") == nil)
        #expect(JSONNumber("0x1") == nil)
        #expect(JSONNumber("") == nil)
        #expect(JSONNumber("1 ") == nil)
    }

    /// Literals that are copied, and similar ones that are not.
    @Test(arguments: [
        ("0", "0"), ("-0", "0"), ("0.0", "0"), ("-0.000", "0"), ("1.0", "1"), ("1.50", "1.5"), ("-1.50", "-1.5"),
        ("100", "100"), ("100.00", "100"), ("1e2", "100"), ("1E+2", "100"), ("0.000001", "0.000001"),
        ("0.0000010", "0.000001"), ("0.0000001", "1e-7"), ("-0.0000001", "-1e-7"), ("0.10", "0.1"),
        ("123456789012345", "123456789012345"), ("1234567890123456", "1234567890123456"),
        ("9007199254740992", "9007199254740992"), ("-9007199254740992", "-9007199254740992"),
        ("9007199254740994", "9007199254740994"), ("12345678901234567000", "12345678901234567000"),
        ("100000000000000000000", "100000000000000000000"), ("1000000000000000000000", "1e+21"),
        ("0.1234567890123456789", "0.12345678901234568"), ("0e-400", "0"), ("52.6", "52.6"), ("1e21", "1e+21"),
        ("9007199254740991.4", "9007199254740991"), ("9.007199254740992e15", "9007199254740992"),
        ("1.0e-7", "1e-7"), ("12e1", "120"), ("0.30000000000000004", "0.30000000000000004"),
    ])
    func literals(text: String, expected: String) {
        #expect(JSONNumber(text)?.canonical == expected)
    }

    @Test("A literal that is copied is what its double would be written as")
    func copied() throws {
        var random = SeededGenerator(seed: 12)
        for _ in 0..<20_000 {
            let integer =
                "\(UInt64.random(in: 0...(.max >> UInt64.random(in: 0...63, using: &random)), using: &random))"
            let digits = (0..<Int.random(in: 1...9, using: &random)).map { _ in
                "\(max(0, Int.random(in: -6...9, using: &random)))"
            }.joined()
            let sign = Bool.random(using: &random) ? "-" : ""
            let text = sign + integer + (Bool.random(using: &random) ? "" : "." + digits)
            var reader = JSONReader(Array(text.utf8), checksNumbers: false)
            var canonical: [UInt8] = []
            try reader.canonicalize(into: &canonical)
            let value = try #require(Double(text))
            #expect(String(decoding: canonical, as: UTF8.self) == Decimal.ecmaScript(value), "\(text)")
            #expect(reader.value(of: 0..<text.utf8.count) == value)
        }
    }

    /// RFC 8785, section 3.2.2.
    @Test func sample() throws {
        let text = #"""
            {
              "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
              "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
              "literals": [null, true, false]
            }
            """#
        let expected =
            #"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#
            + #""string":"€$\u000f\nA'B\"\\\\\"/"}"#
        try expectCanonical(text, expected)
    }

    /// RFC 8785, section 3.2.3: by UTF-16 code units, so that a supplementary character comes before U+FB33.
    @Test func sorting() throws {
        let text = #"""
            {
              "\u20ac": "Euro Sign",
              "\r": "Carriage Return",
              "\ufb33": "Hebrew Letter Dalet With Dagesh",
              "1": "One",
              "\ud83d\ude00": "Emoji: Grinning Face",
              "\u0080": "Control",
              "\u00f6": "Latin Small Letter O With Diaeresis"
            }
            """#
        guard case .object(let object) = try JSONValue.parse(JSONValue.parse(text).canonical) else {
            Issue.record("not an object")
            return
        }
        #expect(
            object.members.map(\.value) == [
                "Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis", "Euro Sign",
                "Emoji: Grinning Face", "Hebrew Letter Dalet With Dagesh",
            ])
    }

    @Test(arguments: [
        (#"{"b":1,"a":2}"#, #"{"a":2,"b":1}"#),
        (#"{"aa":1,"a":2,"":3}"#, #"{"":3,"a":2,"aa":1}"#),
        (
            #"{"z":{"d":4,"c":{"y":1,"x":2}},"a":[{"q":1,"p":2}]}"#,
            #"{"a":[{"p":2,"q":1}],"z":{"c":{"x":2,"y":1},"d":4}}"#
        ),
        (#"{"\n":1,"\\":2,"A":3}"#, #"{"\n":1,"A":3,"\\":2}"#),
        ("\"\u{7F}\u{2028}/\"", "\"\u{7F}\u{2028}/\""),
        (#""\u001f\u0008\u000c\u007f""#, "\"\\u001f\\b\\f\u{7F}\""),
    ])
    func forms(text: String, expected: String) throws {
        try expectCanonical(text, expected)
    }

    @Test("The order of an object's members does not depend on the objects before it")
    func orders() throws {
        try expectCanonical(
            #"[{"c":1,"a":2,"b":3},{"c":4,"a":5,"b":6},{"b":7,"c":8,"a":9},{"a":1,"c":2,"b":3},{"d":4,"c":5},"#
                + #"{"longest b":1,"longest a":2,"a":3},{"longest a":4,"longest b":5,"a":6},{"é":7,"c":8,"a":9}]"#,
            #"[{"a":2,"b":3,"c":1},{"a":5,"b":6,"c":4},{"a":9,"b":7,"c":8},{"a":1,"b":3,"c":2},{"c":5,"d":4},"#
                + #"{"a":3,"longest a":2,"longest b":1},{"a":6,"longest a":4,"longest b":5},{"a":9,"c":8,"é":7}]"#)
    }

    /// From the tree and in one pass over the bytes.
    private func expectCanonical(_ text: String, _ expected: String) throws {
        #expect(try JSONValue.parse(text).canonical == expected)
        var reader = JSONReader(bytes(text))
        var out: [UInt8] = []
        try reader.canonicalize(into: &out)
        #expect(String(decoding: out, as: UTF8.self) == expected)
    }

    @Test func utf16Order() {
        let ordered = [
            "", "\r", "1", "\u{80}", "ö", "€", "\u{D7FF}", "😀", "\u{10FFFF}", "\u{E000}", "\u{FB33}", "\u{FFFF}",
        ]
        for (left, leftText) in ordered.enumerated() {
            for (right, rightText) in ordered.enumerated() {
                let order = JSONReader.compareUTF16(Array(leftText.utf8), Array(rightText.utf8))
                #expect(order.signum() == (left - right).signum())
            }
        }
    }
}
