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
