package import JSON

/// Parameters of a kind's configuration, modelled on Xcode's intent definitions.
package struct IntentDefinition: Hashable, Sendable {
    package enum Category: NamedValue {
        case view, information, order, start, share, create, search, generic

        package static let names = NameTable<Category>()
    }

    package var title: String
    package var description: String
    package var category: Category
    package var isEligibleForWidgets: Bool
    package var isEligibleForSuggestions: Bool
    /// In the order of the form's rows, with unique names.
    package var parameters: [IntentParameter]
    /// Sets of parameters that matter for a prediction, each in the order of the parameters.
    package var supportedCombinations: [[String]]
    package var localizations: LocalizedTexts

    package init(
        title: String, description: String = "", category: Category = .view, isEligibleForWidgets: Bool = true,
        isEligibleForSuggestions: Bool = true, parameters: [IntentParameter] = [],
        supportedCombinations: [[String]] = [], localizations: LocalizedTexts = LocalizedTexts()
    ) {
        self.title = title
        self.description = description
        self.category = category
        self.isEligibleForWidgets = isEligibleForWidgets
        self.isEligibleForSuggestions = isEligibleForSuggestions
        self.parameters = parameters
        self.supportedCombinations = supportedCombinations
        self.localizations = localizations
    }

    package func parameter(_ name: String) -> IntentParameter? {
        parameters.first { Text.equal($0.name, name) }
    }
}

/// A row of a configuration form.
package struct IntentParameter: Hashable, Sendable {
    /// A case of an enumeration.
    package struct Case: Hashable, Sendable {
        package var name: String
        package var displayName: String

        package init(name: String, displayName: String) {
            self.name = name
            self.displayName = displayName
        }
    }

    package struct NumberRange: Hashable, Sendable {
        package var minimum: Double?
        package var maximum: Double?
        /// Distance of adjacent values of a stepper or slider.
        package var step: Double?

        package init(minimum: Double? = nil, maximum: Double? = nil, step: Double? = nil) {
            self.minimum = minimum
            self.maximum = maximum
            self.step = step
        }
    }

    package enum Capitalization: NamedValue {
        case none, words, sentences, allCharacters

        package static let names = NameTable<Capitalization>()
    }

    /// Control of a number.
    package enum NumberControl: NamedValue {
        case field, stepper, slider

        package static let names = NameTable<NumberControl>()
    }

    package enum ValueType: Hashable, Sendable {
        case string(Capitalization)
        case boolean
        case integer(NumberRange, NumberControl)
        case decimal(NumberRange, NumberControl)
        case person
        case location
        case date
        case url
        case enumeration([Case])
        /// Objects of the app, each with an identifier and a display string.
        case custom(typeName: String)

        /// Name of the type in documents, which is that of its case.
        package var name: String { Mirror(reflecting: self).children.first?.label ?? "\(self)" }
    }

    /// Number of values of a parameter that has several.
    package enum Count: Hashable, Sendable {
        case one
        case any
        /// Largest number by family; other families have no limit.
        case fixed([WidgetFamily: Int])
    }

    /// Condition under which a parameter is shown.
    package struct Parent: Hashable, Sendable {
        package var name: String
        /// Value that the parent must have.
        package var value: JSONValue

        package init(name: String, value: JSONValue) {
            self.name = name
            self.value = value
        }
    }

    package var name: String
    package var displayName: String
    package var type: ValueType
    package var count: Count
    /// Nil for none.
    package var defaultValue: JSONValue?
    /// Whether the provider supplies the options.
    package var hasDynamicOptions: Bool
    /// Prompt of the search, which the provider answers; nil if searching filters the list.
    package var searchPrompt: String?
    /// Whether the provider supplies the default.
    package var hasDynamicDefault: Bool
    /// Nil for a parameter that is always shown.
    package var parent: Parent?

    package init(
        name: String, displayName: String, type: ValueType, count: Count = .one, defaultValue: JSONValue? = nil,
        hasDynamicOptions: Bool = false, searchPrompt: String? = nil, hasDynamicDefault: Bool = false,
        parent: Parent? = nil
    ) {
        self.name = name
        self.displayName = displayName
        self.type = type
        self.count = count
        self.defaultValue = defaultValue
        self.hasDynamicOptions = hasDynamicOptions
        self.searchPrompt = searchPrompt
        self.hasDynamicDefault = hasDynamicDefault
        self.parent = parent
    }

    /// Largest number of values in a widget of a family; nil for no limit.
    package func limit(for family: WidgetFamily) -> Int? {
        switch count {
        case .one: 1
        case .any: nil
        case .fixed(let limits): limits[family]
        }
    }
}

/// Translations of display texts.
package struct LocalizedTexts: Hashable, Sendable {
    /// Translation by locale and text.
    package var tables: [String: [String: String]]

    package init(_ tables: [String: [String: String]] = [:]) {
        self.tables = tables
    }

    /// The translation for a locale, else for its language, else the text itself.
    package func text(_ text: String, in locale: String) -> String {
        let language = locale.prefix { $0 != "-" && $0 != "_" }
        return tables[locale]?[text] ?? tables[String(language)]?[text] ?? text
    }
}
