// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import JSON

@Suite(.tags(.json, .property), .timeLimit(.patience))
struct JSONPropertyTests {
    @Test func writtenValuesAreParsedBack() throws {
        var generator = JSONGenerator(seed: 1)
        for _ in 0..<3000 {
            let value = generator.value()
            let written = value.encoded
            let parsed = try JSONValue.parse(written)
            #expect(parsed == value)
            #expect(parsed.encoded == written, "members keep their order, numbers their literal")
        }
    }

    @Test func canonicalForm() throws {
        var generator = JSONGenerator(seed: 2)
        for _ in 0..<3000 {
            let value = generator.value()
            let canonical = value.canonicalBytes
            let parsed = try JSONValue.parse(canonical)
            #expect(parsed == value)
            #expect(parsed.canonicalBytes == canonical, "idempotent")
            #expect(generator.shuffled(value).canonicalBytes == canonical, "whatever the order of members")

            var reader = JSONReader(generator.shuffled(value).encoded)
            var out: [UInt8] = bytes("before")
            try reader.canonicalize(into: &out)
            #expect(out == bytes("before") + canonical, "in one pass as by the tree")
        }
    }

    /// Texts are read and copied by words, whose borders must not show.
    @Test("Texts of any length are read alike, alone and within other bytes, with any byte at any place")
    func words() throws {
        let parts = [
            ("", ""), ("\u{7F}", "\u{7F}"), ("é", "é"), ("😀", "😀"), (#"\n"#, "\n"), (#"\""#, "\""), (#"\\"#, "\\"),
            (#"\u0041"#, "A"), (#"\ud83d\ude00"#, "😀"),
        ]
        for length in 0...40 {
            for place in Set([0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, length]) where place <= length {
                for (written, decoded) in parts {
                    let (before, after) = (
                        String(repeating: "b", count: place), String(repeating: "a", count: length - place)
                    )
                    let text = before + decoded + after
                    let document = bytes(
                        #"{"~": "\#(before)\#(written)\#(after)", "\#(before)\#(written)\#(after)": [0.5]}"#)
                    let expected = JSONObject([
                        (key: "~", value: .string(text)), (key: text, value: .array([.number(half)])),
                    ])
                    #expect(try JSONValue.parse(document) == .object(expected))

                    let within = bytes(#"{"\"#) + document + bytes(#"": "}"#)
                    var reader = JSONReader(within, in: 3..<3 + document.count)
                    var out: [UInt8] = []
                    try reader.canonicalize(into: &out)
                    try reader.finish()
                    #expect(out == JSONValue.object(expected).canonicalBytes)
                }
            }
        }
    }

    private var half: JSONNumber { JSONNumber(checked: "0.5") }

    /// The error of a document, which must be the same whether its canonical form is written or not.
    private static func failure(of document: [UInt8], in range: Range<Int>? = nil) -> JSONError? {
        func failure(_ read: (inout JSONReader) throws(JSONError) -> Void) -> JSONError? {
            var reader = JSONReader(document, in: range)
            do throws(JSONError) {
                try read(&reader)
                return nil
            } catch {
                return error
            }
        }
        let error = failure { (reader) throws(JSONError) in try reader.skip() }
        let other = failure { (reader) throws(JSONError) in
            var out: [UInt8] = []
            try reader.canonicalize(into: &out)
        }
        #expect(error == other)
        return error
    }

    @Test("The end of a document is its end, whatever bytes follow")
    func ends() {
        let document = bytes(#"{"currency": "GBP", "a rather long name": [true, -1.25e1, null, "\u00e9"], "x":false}"#)
        for end in 0..<document.count {
            #expect(Self.failure(of: document, in: 0..<end) != nil, "\(end)")
        }
    }

    @Test("Objects with any number of members are sorted, and their duplicates found")
    func members() throws {
        for count in 1...40 {
            let names = (0..<count).map { "name-\($0 * 17 % count)-\(String(repeating: "x", count: $0))" }
            let members = names.map { "\"\($0)\": 1" }
            var reader = JSONReader(bytes("{\(members.joined(separator: " , "))}"))
            var out: [UInt8] = []
            try reader.canonicalize(into: &out)
            let sorted = names.sorted { $0.utf16.lexicographicallyPrecedes($1.utf16) }
            #expect(String(decoding: out, as: UTF8.self) == "{\(sorted.map { "\"\($0)\":1" }.joined(separator: ","))}")

            let twice = bytes("{\((members + [members[count / 2]]).joined(separator: ","))}")
            #expect(Self.failure(of: twice)?.kind == .duplicateKey)
        }
    }

    @Test func equalityIgnoresOrderAndAgreesWithHashes() {
        var generator = JSONGenerator(seed: 3)
        for _ in 0..<500 {
            let value = generator.value()
            let shuffled = generator.shuffled(value)
            #expect(value == shuffled)
            #expect(value.hashValue == shuffled.hashValue)
        }
        #expect(JSONValue.string("é") != .string("e\u{301}"))
        #expect(["a": 1] as JSONValue != ["a": 2])
        #expect(["a": 1] as JSONValue != ["b": 1])
        #expect(["a": 1, "b": 2] as JSONValue != ["a": 1])
    }

    @Test func numbersThroughDoubles() {
        var random = SeededGenerator(seed: 4)
        for _ in 0..<20_000 {
            let double = Double(bitPattern: random.next())
            guard double.isFinite else { continue }
            guard let number = JSONNumber(double) else {
                Issue.record("\(double) has no literal")
                continue
            }
            #expect(number.double == double)
            #expect(JSONNumber(number.text)?.canonical == number.text)
        }
    }

    /// Checks that the readers agree on validity and that nothing traps.
    @Test func mutatedDocuments() {
        var generator = JSONGenerator(seed: 5)
        var accepted = 0
        for round in 0..<100_000 {
            let document =
                round % 10 == 0
                ? bytes(#"{"a":[1,2.5e3,"\u00e9😀"],"b":{"c":null,"d":true}}"#) : generator.value(depth: 3).encoded
            let mutated = generator.mutated(document)
            let tree = Result { () throws(JSONError) in try JSONValue.parse(mutated) }
            var reader = JSONReader(mutated)
            var out: [UInt8] = []
            let canonical = Result { () throws(JSONError) in
                try reader.canonicalize(into: &out)
                try reader.finish()
            }
            switch (tree, canonical) {
            case (.success(let value), .success):
                accepted += 1
                if value.canonicalBytes != out { Issue.record("canonical forms of \(mutated) differ") }
            case (.failure(let left), .failure(let right)):
                if left != right { Issue.record("\(left) but \(right) for \(mutated)") }
                if left.byteOffset < 0 || left.byteOffset > mutated.count { Issue.record("offset of \(left)") }
                if JSONPointer(left.pointer) == nil { Issue.record("pointer of \(left)") }
            default:
                Issue.record("readers disagree on \(mutated)")
            }
        }
        #expect(accepted > 5000 && accepted < 95_000, "\(accepted) accepted")
    }

    @Test func pointersThatAreLocatedResolve() throws {
        var generator = JSONGenerator(seed: 6)
        for _ in 0..<500 {
            let value = generator.value()
            for (pointer, leaf) in Self.leaves(of: value) {
                #expect(Self.resolve(pointer, in: value) == leaf)
                #expect(JSONPointer(pointer.text) == pointer)
            }
        }
        #expect(JSONPointer("a") == nil)
        #expect(JSONPointer("/~2") == nil)
        #expect(JSONPointer("/~") == nil)
        #expect(JSONPointer("")?.tokens == [])
        #expect(JSONPointer("/")?.tokens == [""])
        #expect(JSONPointer("/a~1b/~0")?.tokens == ["a/b", "~"])
    }

    private static func leaves(of value: JSONValue, at tokens: [String] = []) -> [(JSONPointer, JSONValue)] {
        switch value {
        case .array(let elements):
            elements.enumerated().flatMap { leaves(of: $1, at: tokens + [String($0)]) }
        case .object(let object):
            object.members.flatMap { leaves(of: $0.value, at: tokens + [$0.key]) }
        default:
            [(JSONPointer(tokens: tokens), value)]
        }
    }

    private static func resolve(_ pointer: JSONPointer, in value: JSONValue) -> JSONValue? {
        pointer.tokens.reduce(value) { value, token in
            switch value {
            case .array(let elements): Int(token).map { elements[$0] }
            case .object(let object): object[token]
            default: nil
            }
        }
    }
}
