// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService

@Suite("YAML with source locations", .timeLimit(.patience))
struct LocatedYAMLTests {
    private func json(_ text: String) throws -> String {
        let outcome = LocatedYAML.read(text, file: "f.yaml")
        #expect(outcome.problems.isEmpty, "\(outcome.problems)")
        return try #require(outcome.documents.first?.json).canonical
    }

    private func problems(_ text: String) -> [String] {
        LocatedYAML.read(text, file: "f.yaml").problems.map(\.description)
    }

    @Test(arguments: [
        // Only true and false are booleans, so `no` (Norway) remains a string.
        ("[true, False, no, on, yes, y]", #"[true,false,"no","on","yes","y"]"#),
        ("[~, null, Null, '~', \"null\"]", #"[null,null,null,"~","null"]"#),
        ("[1, -2, +3, 012, 0x1F, 1_000, 10:30]", #"[1,-2,"+3","012","0x1F","1_000","10:30"]"#),
        ("[1.50, .5, 5., 1e3, -1.5E-2, 1.2.3, e5, .]", #"[1.5,".5","5.",1000,-0.015,"1.2.3","e5","."]"#),
        ("['1', \"1\", !!str 1]", #"["1","1","1"]"#),
        ("2020-06-22", #""2020-06-22""#),
        ("a: |\n  one\n  two\nb: >\n  one\n  two", #"{"a":"one\ntwo\n","b":"one two\n"}"#),
        ("base: &b {x: 1}\ncopy: *b\nagain: [*b, *b]", #"{"again":[{"x":1},{"x":1}],"base":{"x":1},"copy":{"x":1}}"#),
        ("{1: a, true: b}", #"{"1":"a","true":"b"}"#),
        ("a", #""a""#),
    ])
    func readsPlainScalarsAsJSON(text: String, expected: String) throws {
        #expect(try json(text) == expected)
    }

    @Test func marksAreWhereValuesStand() throws {
        let document = try #require(LocatedYAML.read("a: 1\nbö: [x,  y]\n", file: "f.yaml").documents.first)
        let member = document.place(of: ["bö"])
        #expect(member.key == (2, 1) && member.value == (2, 5))
        #expect(document.place(of: ["bö", "1"]).value == (2, 10))
        #expect(document.place(of: ["bö", "1"]).path == "bö[1]")
        let missing = document.place(of: ["bö", "2", "x"])
        #expect(missing.key == (2, 1) && missing.path == "bö[2].x")
    }

    @Test func syntaxErrorsHavePlaces() {
        #expect(
            problems("a: [1, 2\nb: 3\n").first?.hasPrefix("f.yaml:2:2: invalid YAML") == true,
            "\(problems("a: [1, 2\nb: 3\n"))")
        #expect(problems("a: \"x").first?.hasPrefix("f.yaml:") == true)
        #expect(problems("\ta: 1").first?.hasPrefix("f.yaml:1:1: invalid YAML") == true, "\(problems("\ta: 1"))")
        #expect(problems("a: *nowhere") == ["f.yaml:1:4: invalid YAML: found undefined alias"])
        #expect(problems("a: \u{0}").first?.hasPrefix("f.yaml: invalid YAML") == true, "\(problems("a: \u{0}"))")
    }

    @Test func duplicateKeysAreRefused() {
        #expect(problems("a: 1\nb: 2\na: 3") == ["f.yaml:1:1: duplicate key \"a\"; expected every key once"])
        // The parser considers these to be two keys; as JSON they are equal.
        #expect(problems("1: a\n\"1\": b") == ["f.yaml:2:1: 1: duplicate key \"1\"; expected every key once"])
    }

    @Test func messagesHoldNoControlCharacters() {
        let said = problems(#""\e[2J": {"\a": 1e999}"#)
        #expect(said.count == 1)
        #expect(said.allSatisfy { !Text.containsControlCharacter($0) }, "\(said)")
    }

    @Test func whatJSONCannotHoldIsRefused() {
        #expect(problems("a: !!binary aGk=").first?.hasPrefix("f.yaml:1:4: a: the tag ") == true)
        #expect(problems("a: !mine {b: 1}") == ["f.yaml:1:4: a: the tag !mine is not supported"])
        #expect(problems("[a]: 1") == ["f.yaml:1:1: a key that is a list or a mapping; expected a string"])
    }

    @Test func aliasesCannotMultiplyWithoutBound() {
        var bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        for level in 1...9 {
            let aliases = Array(repeating: "*a\(level - 1)", count: 10).joined(separator: ",")
            bomb += "a\(level): &a\(level) [\(aliases)]\n"
        }
        let found = problems(bomb)
        #expect(found.count == 1)
        #expect(
            found.first?.hasSuffix("too many values once the aliases are expanded; expected at most 200000") == true)
    }

    @Test func depthAndSizeAreBounded() {
        let deep = String(repeating: "[", count: 500) + String(repeating: "]", count: 500)
        #expect(problems(deep).count == 1)
        #expect(problems(deep).first?.hasSuffix("nested too deeply; expected at most 64 levels") == true)
        // The parser fails before its stack overflows.
        #expect(problems(String(repeating: "[", count: 1_000_000)).count == 1)
        #expect(
            problems(String(repeating: "#", count: LocatedYAML.maximumBytes + 1)) == [
                "f.yaml: the file has 4194305 bytes; expected at most 4194304"
            ])
    }

    @Test func aNumberThatIsTooLongIsQuotedInPart() {
        let digits = String(repeating: "9", count: 5_000)
        let manifest = "app: com.example.a\nkinds:\n  - name: K\n    maxBatch: \(digits)\n"
        #expect(throws: ManifestError.self) { try Manifest.read(text: manifest, file: "m", environment: [:]) }
        do {
            _ = try Manifest.read(text: manifest, file: "m", environment: [:])
        } catch {
            #expect(error.problems.allSatisfy { $0.description.utf8.count < 500 }, "\(error)")
        }
    }
}
