import JSON

/// Content of a widget, independent of its place: two widgets with the same content look the same.
package struct WidgetContent: Hashable, Comparable, Sendable {
    package var app: String
    package var kind: String
    package var configuration: WidgetConfiguration

    package init(app: String, kind: String, configuration: WidgetConfiguration = .empty) {
        self.app = app
        self.kind = kind
        self.configuration = configuration
    }

    package static func == (left: WidgetContent, right: WidgetContent) -> Bool {
        Text.equal(left.app, right.app) && Text.equal(left.kind, right.kind)
            && left.configuration == right.configuration
    }

    package func hash(into hasher: inout Hasher) {
        Text.hash(app, into: &hasher)
        Text.hash(kind, into: &hasher)
        hasher.combine(configuration)
    }

    /// Byte order of app, kind and configuration.
    package static func < (left: WidgetContent, right: WidgetContent) -> Bool {
        if !Text.equal(left.app, right.app) { return Text.precedes(left.app, right.app) }
        if !Text.equal(left.kind, right.kind) { return Text.precedes(left.kind, right.kind) }
        return Text.precedes(left.configuration.canonical, right.configuration.canonical)
    }
}

/// Widgets on top of each other, as the person arranged them.
package struct Stack: Hashable, Sendable {
    /// A widget of the stack.
    package struct Item: Hashable, Sendable {
        package var widget: String
        package var content: WidgetContent
    }

    /// A turn of the stack by hand.
    package struct Turn: Hashable, Sendable {
        /// The widget that the person brought to the top: one of the stack, or that of a suggestion.
        package var widget: String
        package var at: Timestamp
    }

    package var name: String
    package var items: [Item]
    /// Whether widgets rotate to the top automatically. Otherwise only the person turns the stack.
    package var smartRotate = true
    /// Whether widgets may be suggested.
    package var suggestions = true
    /// Last turn by hand.
    package var chosen: Turn?
}

/// Shortcut that an app declares relevant for a widget.
package struct RelevantShortcut: Hashable, Sendable {
    package var content: WidgetContent
    package var role: String
    /// Times at which it is relevant. If empty, the shortcut is relevant when the person usually looks.
    package var ranges: [Range<Timestamp>]

    package init(content: WidgetContent, role: String = "", ranges: [Range<Timestamp>] = []) {
        self.content = content
        self.role = role
        self.ranges = ranges
    }

    package func holds(at time: Timestamp) -> Bool { ranges.contains { $0.contains(time) } }
}

/// Limits of automatic rotations and suggestions.
package struct RotationPolicy: Hashable, Sendable {
    /// Minimum time between two automatic rotations, so that a stack does not flicker.
    package var minimumStay: Duration = .seconds(900)
    /// Time for which a turn by hand is respected.
    package var respectForTurn: Duration = .seconds(7_200)
    /// Minimum probability at which a widget rotates to the top.
    package var minimumPrediction = 0.2
    /// Minimum probability at which a widget is suggested.
    package var minimumSuggestion = 0.3
    /// Value of a widget while its shortcut is relevant, comparable to ranks and probabilities.
    package var shortcutValue = 0.75
    /// Largest number of suggestions of an app on a device in 24 hours.
    package var maximumSuggestionsPerDay = 6

    package init() {}
}
