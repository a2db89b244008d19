// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Randomness
import TestSupport
import Testing

/// Compares the reader with Foundation's parser.
///
/// The reader is stricter: it also refuses duplicate members, deeper nesting, numbers that a double does not keep,
/// commas before a closing bracket, and other encodings than UTF-8.
@Suite("The reader beside Foundation's parser", .tags(.json), .timeLimit(.patience))
struct FoundationTests {
    /// Documents of the grammar's edges; each is valid or not, whatever the number of its digits.
    private static let documents: [String] = [
        "", " ", "null", "true", "false", "nul", "truee", "tru e", "NULL", "\"\"", "\"a", "a", "'a'", "\u{FEFF}null",
        "0", "-0", "-", "+1", "1.", ".1", "01", "-01", "1e", "1e+", "1E-2", "1.5e3", "0x10", "1_0", "1 2", "--1",
        "NaN", "Infinity", "[]", "[", "]", "[,]", "[1,]", "[1,,2]", "[1 2]", "[[]", "[]]", "[1]x", "{}", "{", "}",
        "{,}", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{"a" 1}"#, "{a:1}", "{1:1}", "{'a':1}", #"{"a":1 "b":2}"#,
        #"{"a":1}}"#, #"{"":0}"#, #"{"a":{"b":[{}]}}"#, "[1,2]/**/", "[1]//", "\t[\n1\r, 2 ]\n", "\u{A0}1", "1\u{0}",
        #""\u0041""#, #""\u004""#, #""\u004g""#, #""\ud83d\ude00""#, #""\x""#, #""\'""#, #""\""#, "\"\t\"", "\"\u{0}\"",
        "\"\u{7F}\"", "\"é€😀\"", #""\/\b\f\n\r\t\"\\""#, "\"\u{2028}\"", "[\"a\",\n\"b\"]", "[1,2,3,4,5,6,7,8,9]",
    ]

    private static let invalidUTF8: [[UInt8]] = [
        [0x22, 0x80, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xE2, 0x82, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22],
        [0x22, 0xF0, 0x80, 0x80, 0x80, 0x22], [0x22, 0xF4, 0x90, 0x80, 0x80, 0x22], [0x22, 0xFF, 0x22], [0xE9],
    ]

    @Test("Both accept the same documents with the same values")
    func corpus() {
        for document in Self.documents.map({ Array($0.utf8) }) + Self.invalidUTF8 { Self.compare(document) }
    }

    @Test("Both accept the same random and damaged documents with the same values")
    func random() {
        var generator = JSONGenerator(seed: 8)
        var accepted = 0
        for round in 0..<20_000 {
            let document = generator.value(depth: round % 3).encoded
            accepted += Self.compare(round % 4 == 0 ? document : generator.mutated(document)) ? 1 : 0
        }
        #expect(accepted > 5_000 && accepted < 19_000, "\(accepted) accepted")
    }

    /// - Returns: whether the reader accepts the document.
    @discardableResult
    private static func compare(_ document: [UInt8]) -> Bool {
        let text = String(decoding: document, as: UTF8.self).debugDescription
        let other = try? JSONSerialization.jsonObject(with: Data(document), options: .fragmentsAllowed)
        do throws(JSONError) {
            let value = try JSONValue.parse(document)
            guard let other else {
                Issue.record("only the reader accepts \(text)")
                return true
            }
            if !isSame(value, other) { Issue.record("\(text) is \(value.canonical) here, \(other) there") }
            return true
        } catch {
            switch error.kind {
            case .duplicateKey, .numberOutOfRange, .tooDeep: break
            case .syntax where hasTrailingComma(document, before: error.byteOffset): break
            // Foundation guesses UTF-16 and UTF-32 from zeros, and takes a byte order mark.
            case _ where document.contains(0) || document.starts(with: [0xEF, 0xBB, 0xBF]): break
            default:
                if other != nil { Issue.record("the reader refuses \(text): \(error)") }
            }
            return false
        }
    }

    /// Whether the byte at an offset is a bracket behind a comma.
    private static func hasTrailingComma(_ document: [UInt8], before offset: Int) -> Bool {
        guard offset < document.count, Array("]}".utf8).contains(document[offset]) else { return false }
        return document[..<offset].last { !Array(" \t\r\n".utf8).contains($0) } == UInt8(ascii: ",")
    }

    private static func isSame(_ value: JSONValue, _ other: Any) -> Bool {
        switch value {
        case .null: return other is NSNull
        case .bool(let flag): return (other as? NSNumber)?.boolValue == flag
        case .number(let number):
            // Foundation reads some numbers as decimals, whose doubles are not the nearest ones.
            guard let other = (other as? NSNumber)?.doubleValue else { return false }
            return abs(other - number.double) <= max(1e-14 * abs(number.double), number.double.ulp)
        case .string(let text): return (other as? String).map { Text.equal($0, text) } ?? false
        case .array(let elements):
            guard let others = other as? [Any], others.count == elements.count else { return false }
            return zip(elements, others).allSatisfy(isSame)
        case .object(let object):
            // Foundation's dictionary unites keys that are canonically equivalent.
            guard let others = other as? [String: Any] else { return false }
            return object.members.allSatisfy { member in
                guard let other = others[member.key] else { return false }
                return others.count < object.count || isSame(member.value, other)
            }
        }
    }
}
