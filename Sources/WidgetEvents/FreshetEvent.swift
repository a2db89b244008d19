package import WidgetModel

/// A consumed event.
package enum FreshetEvent: Hashable, Sendable {
    /// A service requests a reload (reason `push`).
    case push(ReloadRequest)
    /// Data has changed in the app (reason `foreground` or `background`).
    case appChange(ReloadRequest)
    /// An operator requests a reload (reason `operator`).
    case operatorReload(ReloadRequest)
    case placed(WidgetPlacement)
    case configured(app: String, widget: String, configuration: WidgetConfiguration)
    case removed(app: String, widget: String)
    case viewed(app: String, widget: String)
    /// `significantTimeChange`: midnight passed, or the clock or the time zone was set.
    case environmentChanged(app: String, device: String, environment: WidgetEnvironment, significantTimeChange: Bool)
    case stackChanged(app: String, user: String, StackArrangement)
    /// A person turned the stack by hand to a widget.
    case stackTurned(app: String, user: String, device: String, stack: String, widget: String)
    /// The whole set of an app's relevant shortcuts, for one device of the user or all.
    case shortcutsReplaced(app: String, user: String, device: String?, [RelevantShortcut])
    case interactionDonated(app: String, user: String, DonatedInteraction)
    case deviceRegistered(app: String, DeviceRegistration)
    case deviceUnregistered(app: String, user: String, device: String)

    package var type: EventType {
        switch self {
        case .push: .pushReceived
        case .appChange: .appChanged
        case .operatorReload: .reloadRequested
        case .placed: .widgetPlaced
        case .configured: .widgetConfigured
        case .removed: .widgetRemoved
        case .viewed: .widgetViewed
        case .environmentChanged: .deviceEnvironmentChanged
        case .stackChanged: .stackChanged
        case .stackTurned: .stackTurned
        case .shortcutsReplaced: .shortcutsReplaced
        case .interactionDonated: .interactionDonated
        case .deviceRegistered: .deviceRegistered
        case .deviceUnregistered: .deviceUnregistered
        }
    }

    package var app: String {
        switch self {
        case .push(let request), .appChange(let request), .operatorReload(let request): request.app
        case .placed(let placement): placement.app
        case .configured(let app, _, _), .removed(let app, _), .viewed(let app, _),
            .environmentChanged(let app, _, _, _), .stackChanged(let app, _, _),
            .stackTurned(let app, _, _, _, _), .shortcutsReplaced(let app, _, _, _),
            .interactionDonated(let app, _, _), .deviceRegistered(let app, _), .deviceUnregistered(let app, _, _):
            app
        }
    }
}

extension FreshetEvent {
    /// User of an event about stacks, shortcuts, interactions or devices; nil for other events.
    package var person: String? {
        switch self {
        case .stackChanged(_, let user, _), .stackTurned(_, let user, _, _, _), .shortcutsReplaced(_, let user, _, _),
            .interactionDonated(_, let user, _), .deviceUnregistered(_, let user, _):
            user
        case .deviceRegistered(_, let registration): registration.user
        case .push, .appChange, .operatorReload, .placed, .configured, .removed, .viewed, .environmentChanged: nil
        }
    }
}

/// A view of content in an app, from which Freshet learns the person's habits.
package struct DonatedInteraction: Hashable, Sendable {
    package var kind: String
    /// Values of the kind's intent.
    package var configuration: WidgetConfiguration
    package var device: String?
    /// IANA name of the person's time zone; nil for that of the person's widgets.
    package var timeZone: String?

    package init(
        kind: String, configuration: WidgetConfiguration = .empty, device: String? = nil, timeZone: String? = nil
    ) {
        self.kind = kind
        self.configuration = configuration
        self.device = device
        self.timeZone = timeZone
    }
}

/// CloudEvents attributes.
package struct EventEnvelope: Hashable, Sendable {
    package var id: String
    package var source: String
    package var type: String
    package var time: Timestamp?
    /// W3C trace context, from the `ce_traceparent` or `traceparent` header.
    package var traceparent: String?
}

/// An event with its envelope.
package struct DecodedEvent: Hashable, Sendable {
    package var envelope: EventEnvelope
    package var event: FreshetEvent
}
