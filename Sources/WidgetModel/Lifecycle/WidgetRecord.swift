/// One placement on one device of one user, as an event announces it.
package struct WidgetPlacement: Hashable, Sendable {
    package var app: String
    package var widget: String
    package var user: String
    package var device: String
    package var kind: String
    package var family: WidgetFamily
    package var configuration: WidgetConfiguration
    package var environment: WidgetEnvironment

    package init(
        app: String, widget: String, user: String, device: String, kind: String, family: WidgetFamily,
        configuration: WidgetConfiguration = .empty, environment: WidgetEnvironment
    ) {
        self.app = app
        self.widget = widget
        self.user = user
        self.device = device
        self.kind = kind
        self.family = family
        self.configuration = configuration
        self.environment = environment
    }
}

/// State of a widget of an app; a removed one stays as the tombstone that older events must not override.
package struct WidgetRecord: Hashable, Sendable {
    package var widget: String
    package var user: String
    package var device: String
    package var kind: String
    package var family: WidgetFamily
    package var configuration: WidgetConfiguration
    package var environment: WidgetEnvironment
    /// Time of the latest change applied.
    package var changedAt: Timestamp
    package var removed: Bool

    package init(
        widget: String, user: String, device: String, kind: String, family: WidgetFamily,
        configuration: WidgetConfiguration, environment: WidgetEnvironment, changedAt: Timestamp, removed: Bool = false
    ) {
        self.widget = widget
        self.user = user
        self.device = device
        self.kind = kind
        self.family = family
        self.configuration = configuration
        self.environment = environment
        self.changedAt = changedAt
        self.removed = removed
    }

    package init(_ placement: WidgetPlacement, changedAt: Timestamp) {
        self.init(
            widget: placement.widget, user: placement.user, device: placement.device, kind: placement.kind,
            family: placement.family, configuration: placement.configuration, environment: placement.environment,
            changedAt: changedAt)
    }

    /// The tombstone of a widget that was removed before it was placed.
    ///
    /// - Parameter user: the user whose widget alone was to be removed; empty for any.
    package init(unplaced widget: String, user: String, changedAt: Timestamp) {
        self.init(
            widget: widget, user: user, device: "", kind: "", family: .systemSmall, configuration: .empty,
            environment: WidgetEnvironment(storedLocale: "", timeZone: ""), changedAt: changedAt, removed: true)
    }

    /// Whether the record is the tombstone of a widget that was removed before it was placed: such a record has no device.
    package var isUnplaced: Bool { device.isEmpty }

    /// Whether two records show the same timeline to the same person on the same device.
    func showsSame(as other: WidgetRecord) -> Bool {
        removed == other.removed && Text.equal(user, other.user) && Text.equal(device, other.device)
            && Text.equal(kind, other.kind) && family == other.family && configuration == other.configuration
            && environment == other.environment
    }
}
