// SPDX-License-Identifier: Apache-2.0

package import JSON
package import Randomness

/// A generator of random JSON documents with difficult values.
package struct JSONGenerator {
    package var random: SeededGenerator

    package init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
    }

    package mutating func value(depth: Int = 0) -> JSONValue {
        switch Int.random(in: 0..<(depth > 4 ? 4 : 6), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2: return .number(number())
        case 3: return .string(string())
        case 4:
            return .array((0..<Int.random(in: 0..<5, using: &random)).map { _ in value(depth: depth + 1) })
        default:
            let count = Int.random(in: 0..<(depth == 0 ? 40 : 6), using: &random)
            return .object(
                JSONObject((0..<count).map { _ in (key: string(), value: value(depth: depth + 1)) }))
        }
    }

    package mutating func flat() -> JSONValue {
        var object = JSONObject()
        for _ in 0..<Int.random(in: 0..<6, using: &random) {
            object[string()] = Bool.random(using: &random) ? .string(string()) : .number(number())
        }
        return .object(object)
    }

    package mutating func number() -> JSONNumber {
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            return JSONNumber(Int.random(in: -1000...1000, using: &random))
        case 1:
            let double = Double(bitPattern: random.next())
            return JSONNumber(double) ?? JSONNumber(0)
        case 2:
            let literals = [
                "0", "-0", "0.0", "-0.00", "1.50", "1e5", "1E+5", "12.0e-3", "123456789012345680000",
                "9007199254740992",
                "0.000001", "0.0000001", "5e-324", "0e-400", "100000000000000000000000", "0.1", "123456789.123456",
            ]
            return literals.randomElement(using: &random).flatMap(JSONNumber.init) ?? JSONNumber(0)
        default:
            let digits = Double(Int.random(in: -9_999_999...9_999_999, using: &random))
            return JSONNumber(digits / 100) ?? JSONNumber(0)
        }
    }

    package mutating func string() -> String {
        let pieces = [
            "a", "b", "Z", "0", " ", "\"", "\\", "/", "\n", "\u{0}", "\u{1F}", "\u{7F}", "é", "e\u{301}", "ß", "€",
            "\u{2028}",
            "\u{D7FF}", "\u{E000}", "\u{FB33}", "\u{FFFF}", "😀", "\u{10FFFF}", "longer than eight bytes",
        ]
        return (0..<Int.random(in: 0..<5, using: &random)).compactMap { _ in pieces.randomElement(using: &random) }
            .joined()
    }

    /// Returns the value with the members of every object in another order.
    package mutating func shuffled(_ value: JSONValue) -> JSONValue {
        switch value {
        case .array(let elements): return .array(elements.map { shuffled($0) })
        case .object(let object):
            let members = object.members.map { (key: $0.key, value: shuffled($0.value)) }
            return .object(JSONObject(members.shuffled(using: &random)))
        default: return value
        }
    }

    /// Returns the document with bytes changed, removed, repeated or inserted.
    package mutating func mutated(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        for _ in 0...Int.random(in: 0..<3, using: &random) {
            guard !bytes.isEmpty else { return bytes }
            let index = Int.random(in: bytes.indices, using: &random)
            let interesting = Array("\"\\{}[],:0-+.eEu \n\u{0}".utf8) + [0x80, 0xC0, 0xED, 0xF4, 0xFF]
            let byte = interesting.randomElement(using: &random) ?? 0
            switch Int.random(in: 0..<5, using: &random) {
            case 0: bytes[index] = UInt8.random(in: .min ... .max, using: &random)
            case 1: bytes[index] = byte
            case 2: bytes.remove(at: index)
            case 3: bytes.insert(byte, at: index)
            default: bytes.removeLast(bytes.count - index)
            }
        }
        return bytes
    }
}
