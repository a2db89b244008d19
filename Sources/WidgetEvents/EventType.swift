import JSON

/// The types of event that Freshet consumes.
package enum EventType: String, CaseIterable, Sendable {
    case pushReceived = "freshet.push.received.v1"
    case appChanged = "freshet.app.changed.v1"
    case reloadRequested = "freshet.reload.requested.v1"
    case widgetPlaced = "freshet.widget.placed.v1"
    case widgetConfigured = "freshet.widget.configured.v1"
    case widgetRemoved = "freshet.widget.removed.v1"
    case widgetViewed = "freshet.widget.viewed.v1"
    case deviceEnvironmentChanged = "freshet.device.environment-changed.v1"
    case stackChanged = "freshet.stack.changed.v1"
    case stackTurned = "freshet.stack.turned.v1"
    case shortcutsReplaced = "freshet.shortcuts.replaced.v1"
    case interactionDonated = "freshet.interaction.donated.v1"
    case deviceRegistered = "freshet.device.registered.v1"
    case deviceUnregistered = "freshet.device.unregistered.v1"

    /// The topic that carries the type.
    package var topic: EventTopic {
        switch self {
        case .pushReceived: .pushes
        case .appChanged, .reloadRequested: .appChanges
        case .widgetPlaced, .widgetConfigured, .widgetRemoved, .widgetViewed, .deviceEnvironmentChanged, .stackChanged,
            .stackTurned, .deviceRegistered, .deviceUnregistered:
            .widgets
        case .shortcutsReplaced, .interactionDonated: .donations
        }
    }

    /// Whether an event of the type takes effect at its time. A wrong time of any other event counts as none.
    var usesTime: Bool { topic == .widgets || topic == .donations }

    /// The type with this name, given as bytes.
    init?(utf8: ArraySlice<UInt8>) {
        guard let type = Self.allCases.first(where: { Text.equal(utf8, $0.rawValue) }) else { return nil }
        self = type
    }
}

/// The topics that Freshet consumes.
package enum EventTopic: String, CaseIterable, Sendable {
    case pushes
    case appChanges
    case widgets
    case donations

    package var defaultName: String {
        switch self {
        case .pushes: "freshet.pushes"
        case .appChanges: "freshet.app-changes"
        case .widgets: "freshet.widgets"
        case .donations: "freshet.donations"
        }
    }
}
