// SPDX-License-Identifier: Apache-2.0

extension KindDefinition {
    /// The errors of values without a family, such as donated ones, with their places in them.
    package func problems(withValues configuration: WidgetConfiguration) -> [ModelError] {
        problems(with: configuration, family: family(fitting: configuration))
    }

    /// The errors of a relevant shortcut with a configuration, with their places in it. Values that are no supported
    /// combination are an error, since the suggestion would not be one of the intent's.
    package func problems(withShortcut configuration: WidgetConfiguration) -> [ModelError] {
        let problems = problems(withValues: configuration)
        guard problems.isEmpty, combinations(in: configuration).isEmpty else { return problems }
        let sets = intent?.supportedCombinations ?? []
        let expected = sets.map { "{\($0.joined(separator: ", "))}" }.joined(separator: " or ")
        return [
            ModelError(
                message: "no supported combination: expected values for \(expected)", pointer: "/configuration")
        ]
    }

    /// The supported combinations in the values that a widget with a configuration shows.
    package func combinations(in configuration: WidgetConfiguration) -> [HabitContent] {
        let values = effective(configuration, family: family(fitting: configuration))
        return HabitContent.contents(kind: name, configuration: values, intent: intent)
    }

    /// The first family of a widget that may show values; one with the fewest errors if none may.
    package func family(fitting configuration: WidgetConfiguration) -> WidgetFamily {
        guard families.count > 1 else { return anyFamily }
        let errors = families.map { problems(with: configuration, family: $0).count }
        return errors.indices.min { errors[$0] < errors[$1] }.map { families[$0] } ?? anyFamily
    }
}
