package import JSON

/// Options of a parameter, as a provider answers them or as its definition lists them.
package struct IntentOptions: Hashable, Sendable {
    /// A value that a person can choose.
    package struct Item: Hashable, Sendable {
        /// Identifier of a custom value or person, name of a case, or the value itself.
        package var value: JSONValue
        package var display: String
        package var subtitle: String?
    }

    package struct Section: Hashable, Sendable {
        /// Nil for the only section of a flat list.
        package var title: String?
        /// Text of the section in the list's index.
        package var indexTitle: String?
        package var items: [Item]
    }

    /// Most options of an answer.
    package static let maximumItems = 20_000

    /// `{"sections": [{"options": [{"value", "display", "subtitle"?}], "title", "indexTitle"}]}`: the form in which
    /// options are kept and answered.
    package let encoded: [UInt8]

    package init(sections: [Section] = []) {
        encoded = (["sections": .array(sections.map(\.json))] as JSONValue).encoded
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

extension IntentOptions.Section {
    fileprivate var json: JSONValue {
        let options = items.map { item -> JSONValue in
            var option: JSONObject = ["value": item.value, "display": .string(item.display)]
            option["subtitle"] = item.subtitle.map { .string($0) }
            return .object(option)
        }
        return ["options": .array(options), "title": .text(title), "indexTitle": .text(indexTitle)]
    }
}

/// Question for the options of a parameter.
package struct OptionsQuestion: Hashable, Sendable {
    package var parameter: String
    /// Text that the person typed; nil when the list opens.
    package var search: String?
    package var context: ConfigurationContext

    package init(parameter: String, search: String? = nil, context: ConfigurationContext) {
        self.parameter = parameter
        self.search = search
        self.context = context
    }
}

/// A widget, placed or not, whose configuration is edited.
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
