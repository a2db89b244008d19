/// Options of a parameter, as a provider answers them or as its definition lists them.
package struct IntentOptions: Hashable, Sendable {
    /// A value that a person can choose.
    package struct Item: Hashable, Sendable {
        /// Identifier of a custom value or person, name of a case, or the value itself.
        package var value: JSONValue
        package var display: String
        package var subtitle: String?

        package init(value: JSONValue, display: String, subtitle: String? = nil) {
            self.value = value
            self.display = display
            self.subtitle = subtitle
        }
    }

    package struct Section: Hashable, Sendable {
        /// Nil: the only section of a flat list.
        package var title: String?
        /// Text of the section in the list's index; nil: none.
        package var indexTitle: String?
        package var items: [Item]

        package init(title: String? = nil, indexTitle: String? = nil, items: [Item]) {
            self.title = title
            self.indexTitle = indexTitle
            self.items = items
        }
    }

    /// `{"sections": [{"options": [{"value", "display", "subtitle"?}], "title", "indexTitle"}]}`: the form in which options
    /// are kept and answered. Answers have up to ``maximumItems``, which nobody looks at one by one on the way.
    package let encoded: [UInt8]

    /// - Parameter encoded: options as ``Encoder`` writes them.
    init(encoded: [UInt8]) { self.encoded = encoded }

    package init(sections: [Section] = []) {
        var encoder = Encoder()
        for section in sections {
            encoder.beginSection()
            for item in section.items {
                encoder.beginOption(
                    value: { item.value.write(to: &$0) }, display: { JSONWriter.append(item.display, to: &$0) })
                if let subtitle = item.subtitle { encoder.append(subtitle: { JSONWriter.append(subtitle, to: &$0) }) }
                encoder.endOption()
            }
            encoder.endSection(title: section.title, indexTitle: section.indexTitle)
        }
        self.init(encoded: encoder.finish())
    }

    package var json: JSONValue { (try? JSONValue.parse(encoded)) ?? .null }

    package var sections: [Section] {
        (json["sections"]?.arrayValue ?? []).map { section in
            Section(
                title: section["title"]?.stringValue, indexTitle: section["indexTitle"]?.stringValue,
                items: (section["options"]?.arrayValue ?? []).map { option in
                    Item(
                        value: option["value"] ?? .null, display: option["display"]?.stringValue ?? "",
                        subtitle: option["subtitle"]?.stringValue)
                })
        }
    }
}

/// Question for the options of a parameter.
package struct OptionsQuestion: Hashable, Sendable {
    package var parameter: String
    /// Text that the person typed; nil: the list was just opened.
    package var search: String?
    package var context: ConfigurationContext

    package init(parameter: String, search: String? = nil, context: ConfigurationContext) {
        self.parameter = parameter
        self.search = search
        self.context = context
    }
}

/// Widget whose configuration is edited, placed or not.
package struct ConfigurationContext: Hashable, Sendable {
    package var user: String
    package var family: WidgetFamily
    package var environment: WidgetEnvironment
    /// Values of the parameters so far.
    package var values: WidgetConfiguration

    package init(user: String, family: WidgetFamily, environment: WidgetEnvironment, values: WidgetConfiguration) {
        self.user = user
        self.family = family
        self.environment = environment
        self.values = values
    }
}
