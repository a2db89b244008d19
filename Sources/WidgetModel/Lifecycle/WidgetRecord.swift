import JSON

/// Placement of a widget on a user's device.
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

/// State of a widget. A removed one stays as a tombstone, which older events must not override.
@dynamicMemberLookup
package struct WidgetRecord: Hashable, Sendable {
    package var placement: WidgetPlacement
    /// Time of the latest change applied.
    package var changedAt: Timestamp
    package var removed: Bool

    package init(_ placement: WidgetPlacement, changedAt: Timestamp, removed: Bool = false) {
        self.placement = placement
        self.changedAt = changedAt
        self.removed = removed
    }

    /// The tombstone of a widget that was removed before it was placed.
    ///
    /// - Parameter user: owner to whom the removal is limited; empty for any.
    package init(unplaced widget: String, user: String, changedAt: Timestamp) {
        let placement = WidgetPlacement(
            app: "", widget: widget, user: user, device: "", kind: "", family: .systemSmall,
            environment: WidgetEnvironment(storedLocale: "", timeZone: ""))
        self.init(placement, changedAt: changedAt, removed: true)
    }

    package subscript<Value>(dynamicMember path: WritableKeyPath<WidgetPlacement, Value>) -> Value {
        get { placement[keyPath: path] }
        set { placement[keyPath: path] = newValue }
    }

    /// Whether the record is the tombstone of a widget that was never placed. Such a record has no device.
    package var isUnplaced: Bool { placement.device.isEmpty }

    /// Whether two records show the same timeline to the same person on the same device.
    func showsSame(as other: WidgetRecord) -> Bool {
        removed == other.removed && Text.equal(self.user, other.user) && Text.equal(self.device, other.device)
            && Text.equal(self.kind, other.kind) && self.family == other.family
            && self.configuration == other.configuration && self.environment == other.environment
    }
}
