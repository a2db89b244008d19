// SPDX-License-Identifier: Apache-2.0

import Randomness

/// Generates broken documents from valid ones. Equal seeds give equal documents.
struct InputGenerator: RandomNumberGenerator {
    private var generator: SeededGenerator

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
    }

    mutating func next() -> UInt64 { generator.next() }

    mutating func below(_ bound: Int) -> Int { generator.below(max(1, bound)) }

    mutating func any<Value>(_ values: [Value]) -> Value { values[below(values.count)] }

    mutating func chance(_ part: Int, of whole: Int) -> Bool { generator.chance(part, of: whole) }

    // MARK: Bytes

    mutating func randomBytes() -> [UInt8] {
        let count = below([4, 40, 400][below(3)])
        return (0..<count).map { _ in UInt8(truncatingIfNeeded: next() >> 24) }
    }

    /// Fragments of JSON, well-formed or not.
    mutating func randomTokens() -> [UInt8] {
        var out: [UInt8] = []
        for _ in 0..<below(60) { out += any(Self.tokens) }
        return out
    }

    private static let tokens: [[UInt8]] = [
        "{", "}", "[", "]", ":", ",", "\"", "\"a\"", "\"app\":", "\"id\":", "null", "true", "false", "0", "-", "1e9",
        ".5",
        "\\", "\\u", "\\ud800", " ", "\n", "\t", "//", "\"entries\":[", "\"timelines\":[{", "\u{0}",
    ].map { Array($0.utf8) }

    /// Values that are difficult for parsers.
    private static let awkward: [[UInt8]] =
        [
            "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", "e", "\u{0}", "\u{7F}", "\u{2028}", "\u{FEFF}",
            "\\u0000",
            "\\ud800", "\\udc00", "\\ud83d\\ude00", "\\uD83D\\uD83D", "\\x", "\\u12", "\u{202E}", "e\u{301}", "é", "~",
            "/",
            "~1", "NaN", "Infinity", "-0", "1E400", "-1e-400", "0.1e+1", "01", "+1", "0x1", "1.", "9223372036854775808",
            "18446744073709551616", "123456789012345678901234567890", "5e-324", "1.7976931348623159e308", "''", "\r\n",
            " ",
        ].map { Array($0.utf8) } + [
            [0x80], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xFF, 0xFE], [0xE2, 0x82],
            [0xF0, 0x9F],
        ]

    /// Changes some bytes.
    private mutating func mutateOnce(_ bytes: inout [UInt8], with others: [[UInt8]]) {
        let index = below(bytes.count + 1)
        let end = min(bytes.count, index + below([2, 8, 64, 1 << 20][below(4)]))
        switch below(12) {
        case 0 where index < bytes.count: bytes[index] ^= 1 << UInt8(below(8))
        case 1 where index < bytes.count: bytes[index] = UInt8(truncatingIfNeeded: next())
        case 2...4: bytes.insert(contentsOf: any(Self.awkward), at: index)
        case 5: bytes.removeSubrange(index..<end)
        case 6: bytes.insert(contentsOf: bytes[index..<end], at: index)
        case 7: bytes.removeSubrange(index...)
        case 8:
            let other = others.isEmpty ? bytes : any(others)
            let start = below(other.count + 1)
            bytes.replaceSubrange(index..<end, with: other[start..<min(other.count, start + below(200))])
        case 9: nest(&bytes, at: index)
        case 10: explodeNumber(&bytes, from: index)
        default: grow(&bytes, at: index)
        }
    }

    private mutating func nest(_ bytes: inout [UInt8], at index: Int) {
        let opening: [UInt8] = any([[0x5B], [0x7B], Array("{\"a\":".utf8), Array("[[".utf8)])
        let depth = [3, 70, 600, 20_000][min(below(40), 3) == 3 ? (chance(1, of: 50) ? 3 : below(3)) : below(2)]
        var nested: [UInt8] = []
        for _ in 0..<depth { nested += opening }
        bytes.insert(contentsOf: nested, at: index)
    }

    private mutating func explodeNumber(_ bytes: inout [UInt8], from index: Int) {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        guard let start = bytes[index...].firstIndex(where: { digits.contains($0) }) else { return }
        let end = bytes[start...].firstIndex { !digits.contains($0) } ?? bytes.count
        let replacement: [UInt8] =
            chance(1, of: 20)
            ? Array(repeating: UInt8(ascii: "9"), count: 1 + below(5_000))
            : any(Self.awkward.suffix(30).prefix(20).map { $0 })
        bytes.replaceSubrange(start..<end, with: replacement)
    }

    /// Generates something long; rarely something very long.
    private mutating func grow(_ bytes: inout [UInt8], at index: Int) {
        let piece: [UInt8] = any([
            [0x61], [0x20], Array("\\u0041".utf8), Array("é".utf8), Array("1,".utf8), Array("~".utf8),
        ])
        let count = chance(1, of: 60) ? below(60_000) : below(400)
        var grown: [UInt8] = []
        for _ in 0..<count { grown += piece }
        bytes.insert(contentsOf: grown, at: index)
    }

    mutating func mutated(_ document: [UInt8], with others: [[UInt8]]) -> [UInt8] {
        var bytes = document
        for _ in 0...below([1, 3, 10][below(3)]) { mutateOnce(&bytes, with: others) }
        if chance(1, of: 100) { bytes.insert(contentsOf: [0xEF, 0xBB, 0xBF], at: 0) }
        return bytes
    }

    /// Combines documents into a JSON document, with changes mostly in its structure, otherwise in its bytes.
    mutating func json(of documents: [[UInt8]]) -> [UInt8] {
        switch below(20) {
        case 0: return randomBytes()
        case 1: return randomTokens()
        case 2...10:
            var tree = JSONTree(any(documents))
            for _ in 0..<below(4) { tree.mutate(&self) }
            var out: [UInt8] = []
            tree.write(to: &out, &self)
            return chance(1, of: 10) ? mutated(out, with: documents) : out
        default: return mutated(any(documents), with: documents)
        }
    }

    // MARK: YAML

    private static let yaml: [[UInt8]] = [
        "&a ", "*a", "<<: *a", "!!binary ", "!!int ", "!<tag:x> ", "|", ">-", "? ", ": ", "- ", "---\n", "...\n",
        "%YAML 9.9\n",
        "\t", "{", "}", "[", "]", "#", "~", "null", "0x1F", "0o7", "1e9", ".nan", "2020-01-01", "yes", "'", "\"",
        "\u{85}",
        "\u{FEFF}", "999999999d", "&a [*a]", "&b [&a [x,x],*a,*a]", "\u{0}", "é", "  ",
    ].map { Array($0.utf8) }

    /// Combines documents into a YAML document: lines are moved, repeated or indented, or bytes are changed.
    mutating func yaml(of documents: [[UInt8]]) -> [UInt8] {
        if chance(1, of: 30) { return randomBytes() }
        if chance(1, of: 3) { return mutated(any(documents), with: documents) }
        var lines = any(documents).split(separator: 0x0A, omittingEmptySubsequences: false).map { Array($0) }
        for _ in 0...below(4) {
            guard !lines.isEmpty else { break }
            let index = below(lines.count)
            switch below(7) {
            case 0: lines.remove(at: index)
            case 1: lines.insert(lines[index], at: below(lines.count + 1))
            case 2: lines.swapAt(index, below(lines.count))
            case 3: lines[index].insert(contentsOf: Array(repeating: 0x20, count: 1 + below(5)), at: 0)
            case 4: lines[index] = Array(lines[index].drop { $0 == 0x20 })
            default: lines[index].insert(contentsOf: any(Self.yaml), at: below(lines[index].count + 1))
            }
        }
        return Array(lines.joined(separator: [0x0A]))
    }
}
