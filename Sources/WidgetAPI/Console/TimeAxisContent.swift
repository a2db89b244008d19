import JSON
import WidgetModel

/// Content of an entry as HTML, for light and dark surroundings side by side, with its JSON.
///
/// Only the app knows the looks of its widgets, so the content is shown as a list of its members.
enum TimeAxisContent {
    static func html(of content: JSONValue) -> HTML {
        let variants = ContentVariants(content)
        return """
            <div class="sides">\(variant(variants.light, "light"))\(variant(variants.dark, "dark"))</div>\
            <details><summary>JSON</summary><pre>\(String(decoding: content.encoded, as: UTF8.self))</pre></details>
            """
    }

    private static func variant(_ value: JSONValue?, _ name: String) -> HTML {
        let body: HTML = value.map { list($0) } ?? "<p class=\"soft\">no \(name) variant</p>"
        return "<div class=\"side-\(name)\" role=\"group\" aria-label=\"\(name)\">\(body)</div>"
    }

    static func list(_ value: JSONValue) -> HTML {
        switch value {
        case .null: "<span class=\"soft\">null</span>"
        case .bool(let value): value ? "true" : "false"
        case .number(let number): "\(number.text)"
        case .string(let text): "\(text)"
        case .array(let elements):
            elements.isEmpty
                ? "<span class=\"soft\">empty</span>" : "<ul>\(HTML(elements.map { "<li>\(list($0))</li>" }))</ul>"
        case .object(let object):
            object.isEmpty
                ? "<span class=\"soft\">empty</span>"
                : "<dl>\(HTML(object.members.map { "<div><dt>\($0.key)</dt><dd>\(list($0.value))</dd></div>" }))</dl>"
        }
    }
}
