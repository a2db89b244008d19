// SPDX-License-Identifier: Apache-2.0

package import JSON

/// Form for editing a widget's configuration, with the rows of its kind's parameters in one language.
package struct ConfigurationForm: Hashable, Sendable {
    /// Control of a row's values.
    package enum Control: NamedValue {
        case textField, numberField, stepper, slider, toggle, contactPicker, locationPicker, datePicker, urlField, list

        package static let names = nameTable([.toggle: "switch"])
    }

    package struct Row: Hashable, Sendable {
        package let parameter: IntentParameter
        package let label: String
        package let control: Control
        /// Given value with its display string, or the default if there is no valid one.
        package let value: JSONValue?
        /// Options of the definition; nil if there are none, or the provider supplies them.
        package let options: IntentOptions?
        package let searchPrompt: String?
        /// Largest number of values in a widget of the family; nil for no limit.
        package let limit: Int?
        /// Whether the parent has the value under which the row is shown.
        package let isShown: Bool
    }

    package let kind: String
    package let displayName: String
    package let title: String
    package let description: String
    package let family: WidgetFamily
    package let locale: String
    package let accentColor: String?
    package let backgroundColor: String?
    package let rows: [Row]
    /// Errors of the configuration's values, for which rows show the defaults.
    package let problems: [ModelError]
}

extension KindDefinition {
    /// The form of a configuration; nil for a kind without an intent.
    ///
    /// - Parameter locale: language of labels.
    package func form(
        for configuration: WidgetConfiguration, family: WidgetFamily, locale: String
    ) -> ConfigurationForm? {
        guard let intent else { return nil }
        let resolution = intent.resolve(configuration, family: family)
        let effective = resolution.effective.value.objectValue ?? JSONObject()
        let given = configuration.value.objectValue ?? JSONObject()
        func row(_ parameter: IntentParameter) -> ConfigurationForm.Row {
            var problems: [ModelError] = []
            let value = given[parameter.name].flatMap { value in
                parameter.read(value, family: family, at: "", &problems).map { _ in value }
            }
            return ConfigurationForm.Row(
                parameter: parameter,
                label: intent.text(parameter.displayName, id: parameter.displayNameID, in: locale),
                control: parameter.control,
                value: value ?? parameter.shownDefault(for: family),
                options: parameter.listedOptions(of: intent, locale),
                searchPrompt: parameter.searchPrompt.map { intent.text($0, id: parameter.searchPromptID, in: locale) },
                limit: parameter.limit(for: family), isShown: intent.isShown(parameter.name, effective))
        }
        return ConfigurationForm(
            kind: name, displayName: intent.text(displayName, in: locale), title: intent.text(intent.title, in: locale),
            description: intent.text(intent.description, in: locale), family: family, locale: locale,
            accentColor: accentColor, backgroundColor: backgroundColor, rows: intent.parameters.map(row),
            problems: resolution.problems)
    }
}

extension IntentDefinition {
    /// The translation of a display text for a locale. One that equals another text with other translations has them
    /// under an identifier.
    fileprivate func text(_ text: String, id: String?, in locale: String) -> String {
        guard let id else { return self.text(text, in: locale) }
        let found = self.text(id, in: locale)
        return Text.equal(found, id) ? text : found
    }
}

extension IntentParameter {
    fileprivate var control: ConfigurationForm.Control {
        if hasDynamicOptions { return .list }
        switch type {
        case .string: return .textField
        case .boolean: return .toggle
        case .integer(_, let control), .decimal(_, let control):
            switch control {
            case .field: return .numberField
            case .stepper: return .stepper
            case .slider: return .slider
            }
        case .person: return .contactPicker
        case .location: return .locationPicker
        case .date: return .datePicker
        case .url: return .urlField
        case .enumeration, .custom: return .list
        }
    }

    /// The default with its display strings; an array is cut to the values that fit the family.
    fileprivate func shownDefault(for family: WidgetFamily) -> JSONValue? {
        guard let initialValue else { return nil }
        guard count != .one else { return initialValue }
        return .array(Array((initialValue.arrayValue ?? []).prefix(limit(for: family) ?? .max)))
    }

    /// Options of the definition in a language; nil if there are none, or the provider supplies them.
    package func listedOptions(of intent: IntentDefinition, _ locale: String) -> IntentOptions? {
        guard !hasDynamicOptions, case .enumeration(let cases) = type else { return nil }
        let items = cases.map {
            IntentOptions.Item(
                value: .string($0.name), display: intent.text($0.displayName, id: $0.displayNameID, in: locale))
        }
        return IntentOptions(sections: [IntentOptions.Section(items: items)])
    }
}

extension IntentOptions {
    /// The options whose display strings or subtitles contain a text, without empty sections.
    package func filtered(by search: String) -> IntentOptions {
        let wanted = search.lowercased()
        let sections = sections.compactMap { section -> Section? in
            var section = section
            section.items.removeAll { item in
                !item.display.lowercased().contains(wanted)
                    && !(item.subtitle?.lowercased().contains(wanted) ?? false)
            }
            return section.items.isEmpty ? nil : section
        }
        return IntentOptions(sections: sections)
    }
}

extension ConfigurationForm {
    /// The API's representation of the form.
    ///
    /// - Parameter optionsPath: path of a parameter's options.
    package func json(optionsPath: (String) -> String) -> JSONValue {
        [
            "kind": .string(kind), "displayName": .string(displayName), "title": .string(title),
            "description": .string(description), "family": .string(family.name), "locale": .string(locale),
            "accentColor": .text(accentColor), "backgroundColor": .text(backgroundColor),
            "rows": .array(rows.map { $0.json(optionsPath: optionsPath) }),
            "problems": .array(
                problems.map { ["detail": .string($0.message), "pointer": .string("/configuration" + $0.pointer)] }),
        ]
    }
}

extension ConfigurationForm.Row {
    package var isSeveral: Bool { parameter.count != .one }

    /// Bounds and step of a number.
    package var range: IntentParameter.NumberRange? {
        switch parameter.type {
        case .integer(let range, _), .decimal(let range, _): range
        default: nil
        }
    }

    /// Value of the parent with which the row is shown; nil for any value.
    package func parentValue(in rows: [ConfigurationForm.Row]) -> JSONValue? {
        guard let parent = parameter.parent, let value = parent.value else { return nil }
        return rows.first { Text.equal($0.parameter.name, parent.name) }?.parameter.canonical(value)
    }

    fileprivate func json(optionsPath: (String) -> String) -> JSONValue {
        guard case .object(let definition) = parameter.json() else { return .null }
        var object: JSONObject = [
            "parameter": .string(parameter.name), "label": .string(label), "control": .string(control.name),
            "type": definition["type"] ?? .null, "value": value ?? .null, "shown": .bool(isShown),
            "several": .bool(isSeveral), "limit": .count(limit),
        ]
        for key in ["minimum", "maximum", "step", "capitalization", "multiline", "components", "parent"] {
            object[key] = definition[key]
        }
        if let searchPrompt { object["search"] = ["prompt": .string(searchPrompt)] }
        object["options"] = options?.json
        if parameter.hasDynamicOptions { object["optionsPath"] = .string(optionsPath(parameter.name)) }
        return .object(object)
    }
}
