// SPDX-License-Identifier: Apache-2.0

extension KindDefinition {
    /// The errors of a relevant shortcut with a configuration, with their places in it. Values that are no supported
    /// combination are an error, since the suggestion would not be one of the intent's.
    package func problems(withShortcut configuration: WidgetConfiguration) -> [ModelError] {
        let problems = problems(with: configuration, family: anyFamily)
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
        HabitContent.contents(
            kind: name, configuration: effective(configuration, family: anyFamily), intent: intent)
    }
}
