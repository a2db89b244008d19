import JSON
import Mustache
import WidgetModel

/// JSON as values for templates. An object's members, an array's elements and texts are what the template names; null
/// and empty text hide a section.
enum ConsoleView {
    static func value(_ json: JSONValue) -> Any {
        switch json {
        case .null: return Nothing()
        case .bool(let value): return value
        case .number(let number): return Words(text: grouped(number.text))
        case .string(let text): return Words(text: text)
        case .array(let elements): return elements.map(value)
        case .object(let object): return members(object)
        }
    }

    static func members(_ object: JSONObject) -> [String: Any] {
        Dictionary(object.members.map { ($0.key, value($0.value)) }) { $1 }
    }

    /// A whole number of five digits or more, with spaces between its thousands.
    static func grouped(_ number: String) -> String {
        guard number.utf8.count > 4, number.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return number }
        var result = ""
        for (index, digit) in number.enumerated() {
            if index > 0, (number.count - index).isMultiple(of: 3) { result += "\u{202F}" }
            result.append(digit)
        }
        return result
    }

    /// A number with two or three digits that count.
    static func words(_ value: Double) -> String {
        switch abs(value) {
        case 0: "0"
        case ..<1: "\((value * 1_000).rounded() / 1_000)"
        case ..<100: JSONNumber((value * 10).rounded() / 10)?.text ?? "0"
        default: grouped("\(Int(value.rounded()))")
        }
    }

    private struct Nothing: MustacheCustomRenderable {
        let renderText = ""
        let isNull = true
    }

    /// Text with the transforms of templates: `{{path(x)}}` is percent-encoded for a link, `{{time(x)}}` is a time in
    /// UTC without its fraction of seconds, `{{duration(x)}}` has a unit.
    private struct Words: MustacheCustomRenderable, MustacheTransformable {
        let text: String

        var renderText: String { text }
        var isNull: Bool { text.isEmpty }

        func transform(_ name: String) -> Any? {
            switch name {
            case "path": Text.percentEncoded(text)
            case "time": Timestamp(rfc3339: text).map(LocalClock.utc.full) ?? text
            // Durations in JSON are seconds, or text with a unit.
            case "duration": text.last?.isNumber == true ? "\(text) s" : text
            default: nil
            }
        }
    }
}
