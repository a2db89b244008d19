import WidgetModel

extension SourceMark {
    /// The place of the byte at `offset` of `text`.
    init(ofByte offset: Int, in text: String) {
        self.init(line: 1, column: 1)
        for byte in text.utf8.prefix(offset) {
            if byte == UInt8(ascii: "\n") {
                self = SourceMark(line: line + 1, column: 1)
            } else if byte & 0b1100_0000 != 0b1000_0000 {
                // Columns count scalars: continuation bytes do not move them.
                column += 1
            }
        }
    }
}

extension LocatedValue {
    /// A JSON document as a located value; JSON that has been parsed no longer knows its lines.
    init(json: JSONValue) {
        let content: Content =
            switch json {
            case .null: .null
            case .bool(let value): .bool(value)
            case .number(let number): .number(number.text)
            case .string(let text): .string(text)
            case .array(let items): .sequence(items.map(LocatedValue.init(json:)))
            case .object(let object):
                .mapping(
                    object.members.map { member in
                        Member(key: member.key, keyMark: .unknown, value: LocatedValue(json: member.value))
                    })
            }
        self.init(mark: .unknown, content: content)
    }

    /// At least how many bytes the value has as JSON: all of them but what escapes add.
    var minimumJSONBytes: Int {
        switch content {
        case .null: 4
        case .bool(let value): value ? 4 : 5
        case .number(let text): text.utf8.count
        case .string(let text): text.utf8.count + 2
        case .sequence(let items):
            items.reduce(1 + max(1, items.count)) { $0 + $1.minimumJSONBytes }
        case .mapping(let members):
            members.reduce(1 + max(1, members.count)) { $0 + $1.key.utf8.count + 3 + $1.value.minimumJSONBytes }
        }
    }

    /// A number that JSON readers could not take.
    struct OutOfRange: Error {
        let mark: SourceMark
        let text: String
    }

    /// The value as JSON.
    func json() throws(OutOfRange) -> JSONValue {
        switch content {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .number(let text):
            guard let number = JSONNumber(text) else { throw OutOfRange(mark: mark, text: text) }
            return .number(number)
        case .string(let text): return .string(text)
        case .sequence(let items):
            var elements: [JSONValue] = []
            for item in items { elements.append(try item.json()) }
            return .array(elements)
        case .mapping(let members):
            var result: [JSONObject.Member] = []
            for member in members {
                result.append(JSONObject.Member(key: member.key, value: try member.value.json()))
            }
            return .object(JSONObject(result))
        }
    }
}
