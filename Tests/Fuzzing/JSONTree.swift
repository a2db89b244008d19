// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

/// A JSON document that may violate JSON's rules, for instance by a duplicate member.
enum JSONTree {
    /// Written unchanged.
    case raw([UInt8])
    case string(String)
    case array([JSONTree])
    case object([(key: String, value: JSONTree)])

    /// - Parameter document: Valid JSON; other bytes are kept unchanged.
    init(_ document: [UInt8]) {
        if let value = try? JSONValue.parse(document) { self.init(value) } else { self = .raw(document) }
    }

    private init(_ value: JSONValue) {
        switch value {
        case .array(let elements): self = .array(elements.map { JSONTree($0) })
        case .object(let object): self = .object(object.members.map { ($0.key, JSONTree($0.value)) })
        case .string(let text): self = .string(text)
        default: self = .raw(value.encoded)
        }
    }

    private static func random(_ random: inout InputGenerator, depth: Int = 0) -> JSONTree {
        switch random.below(depth > 3 ? 6 : 8) {
        case 0: return .raw(Array("null".utf8))
        case 1: return .raw(Array("true".utf8))
        case 2: return .raw(Array("\(random.below(1 << 40) - 1 << 20)".utf8))
        case 3: return .raw(Array(random.any(["1e400", "-0", "0.5", "1e-7", "12345678901234567890", "1.0"]).utf8))
        case 4: return .string(random.any(["", "a", "2026-06-22T10:00:00Z", "atEnd", "all", "é😀", "\u{0}", "u/~"]))
        case 5: return .string(String(repeating: "x", count: random.below(600)))
        case 6: return .array((0..<random.below(4)).map { _ in Self.random(&random, depth: depth + 1) })
        default:
            return .object(
                (0..<random.below(4)).map { _ in
                    (
                        random.any(["id", "app", "kinds", "after", "a", "", "policy", "entries"]),
                        Self.random(&random, depth: depth + 1)
                    )
                })
        }
    }

    /// Changes one node.
    mutating func mutate(_ random: inout InputGenerator) {
        switch self {
        case .array(var elements) where !elements.isEmpty && random.chance(4, of: 5):
            let index = random.below(elements.count)
            switch random.below(8) {
            case 0: elements.remove(at: index)
            case 1: elements.insert(elements[index], at: index)
            case 2: elements.swapAt(index, random.below(elements.count))
            case 3:
                let copies = random.chance(1, of: 40) ? 1_200 : random.below(12)
                elements += Array(repeating: elements[index], count: copies)
            default: elements[index].mutate(&random)
            }
            self = .array(elements)
        case .object(var members) where !members.isEmpty && random.chance(4, of: 5):
            let index = random.below(members.count)
            switch random.below(10) {
            case 0: members.remove(at: index)
            case 1: members.append(members[index])
            case 2: members[index].key = members[random.below(members.count)].key
            case 3: members.append((random.any(["extra", "id", "error", "é", "\u{0}"]), Self.random(&random)))
            case 4: members.swapAt(index, random.below(members.count))
            default: members[index].value.mutate(&random)
            }
            self = .object(members)
        default:
            self = random.chance(1, of: 5) ? .array([self]) : Self.random(&random)
        }
    }

    /// Writes the document, occasionally with white space and redundant escapes.
    func write(to out: inout [UInt8], _ random: inout InputGenerator) {
        if random.chance(1, of: 30) { out.append(random.any([0x20, 0x0A, 0x0D, 0x09])) }
        switch self {
        case .raw(let bytes): out += bytes
        case .string(let text): Self.write(text, to: &out, &random)
        case .array(let elements):
            out.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                element.write(to: &out, &random)
            }
            out.append(UInt8(ascii: "]"))
        case .object(let members):
            out.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                Self.write(member.key, to: &out, &random)
                out.append(UInt8(ascii: ":"))
                member.value.write(to: &out, &random)
            }
            out.append(UInt8(ascii: "}"))
        }
    }

    private static func write(_ text: String, to out: inout [UInt8], _ random: inout InputGenerator) {
        guard random.chance(1, of: 20) else {
            out += JSONValue.string(text).encoded
            return
        }
        out.append(UInt8(ascii: "\""))
        for unit in text.utf16 {
            let digits = String(unit, radix: 16)
            out += Array("\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)".utf8)
        }
        out.append(UInt8(ascii: "\""))
    }
}
