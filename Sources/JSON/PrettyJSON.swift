/// Indented JSON: two spaces per level, short arrays and objects of scalars on one line.
package enum PrettyJSON {
    private static let lineLength = 100

    package static func text(_ value: JSONValue) -> String {
        var text = ""
        append(value, indentation: 0, to: &text)
        return text
    }

    private static func append(_ value: JSONValue, indentation: Int, to text: inout String) {
        let compact = String(decoding: value.encoded, as: UTF8.self)
        switch value {
        case .object(let object) where !object.isEmpty && indentation + compact.utf8.count > lineLength:
            let inner = String(repeating: " ", count: indentation + 2)
            text += "{"
            for (index, member) in object.members.enumerated() {
                text += (index == 0 ? "\n" : ",\n") + inner
                text += String(decoding: JSONValue.string(member.key).encoded, as: UTF8.self) + ": "
                append(member.value, indentation: indentation + 2, to: &text)
            }
            text += "\n" + String(repeating: " ", count: indentation) + "}"
        case .array(let elements) where !elements.isEmpty && indentation + compact.utf8.count > lineLength:
            let inner = String(repeating: " ", count: indentation + 2)
            text += "["
            for (index, element) in elements.enumerated() {
                text += (index == 0 ? "\n" : ",\n") + inner
                append(element, indentation: indentation + 2, to: &text)
            }
            text += "\n" + String(repeating: " ", count: indentation) + "]"
        default:
            text += compact
        }
    }
}
