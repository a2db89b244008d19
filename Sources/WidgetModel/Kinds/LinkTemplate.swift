import JSON

/// Template of the links that a kind's widgets open, with parameters in braces: `rangers://hero/{hero}`.
package struct LinkTemplate: Hashable, Sendable {
    private enum Part: Hashable, Sendable {
        case text(String)
        case parameter(String)
    }

    package static let maximumBytes = 2048

    private let parts: [Part]

    /// - Throws: `ModelError` if the text is not a template.
    package init(_ text: String) throws(ModelError) {
        func failed(_ message: String) -> ModelError { ModelError(message: message) }
        guard text.utf8.count <= Self.maximumBytes, !Text.containsControlCharacter(text) else {
            throw failed("expected at most \(Self.maximumBytes) bytes without control characters")
        }
        var parts: [Part] = []
        var rest = text[...]
        while let open = rest.firstIndex(where: { $0 == "{" || $0 == "}" }) {
            let after = rest[rest.index(after: open)...]
            guard rest[open] == "{", let close = after.firstIndex(where: { $0 == "{" || $0 == "}" }),
                after[close] == "}", close > after.startIndex
            else { throw failed("expected a URL with names of parameters in braces, found \(Text.quoted(text))") }
            parts.append(.text(String(rest[..<open])))
            parts.append(.parameter(String(after[..<close])))
            rest = after[after.index(after: close)...]
        }
        parts.append(.text(String(rest)))
        // The scheme is no part of a configuration.
        guard case .text(let start)? = parts.first, IntentParameter.hasScheme(start) else {
            throw failed("expected an absolute URL, found \(Text.quoted(text))")
        }
        self.parts = parts
    }

    /// Names of the parameters in the template.
    package var parameters: [String] {
        parts.compactMap { part in
            if case .parameter(let name) = part { name } else { nil }
        }
    }

    /// The link of a widget. Values are percent-encoded and separated by commas; a missing value is empty.
    package func url(for configuration: WidgetConfiguration) -> String {
        let values = parameters.isEmpty ? JSONValue.null : configuration.value
        return parts.map { part in
            switch part {
            case .text(let text): text
            case .parameter(let name): Self.text(of: values[name])
            }
        }.joined()
    }

    private static func text(of value: JSONValue?) -> String {
        switch value {
        case nil, .null?: ""
        case .string(let text)?: Text.percentEncoded(text)
        case .bool(let value)?: value ? "true" : "false"
        case .number(let number)?: Text.percentEncoded(number.canonical)
        case .array(let values)?: values.map(text).joined(separator: ",")
        case .object(let object)?:
            if let identifier = object["identifier"] {
                text(of: identifier)
            } else {
                "\(text(of: object["latitude"])),\(text(of: object["longitude"]))"
            }
        }
    }
}

extension KindDefinition {
    /// Link of a widget with a configuration, if the kind has one.
    package func link(for configuration: WidgetConfiguration, family: WidgetFamily) -> String? {
        widgetURL.flatMap { try? LinkTemplate($0) }?.url(for: effective(configuration, family: family))
    }
}
