package import WidgetModel

/// A consumed event.
package enum FreshetEvent: Hashable, Sendable {
    /// A service asks for a reload (reason `push`).
    case push(ReloadRequest)
    /// Something relevant changed in the app (reason `foreground` or `background`).
    case appChange(ReloadRequest)
    /// An operator asks for a reload (reason `operator`).
    case operatorReload(ReloadRequest)
    case placed(WidgetPlacement)
    case configured(app: String, widget: String, configuration: WidgetConfiguration)
    case removed(app: String, widget: String)
    case viewed(app: String, widget: String)
    /// `significantTimeChange`: midnight passed, or the clock or the time zone was set.
    case environmentChanged(app: String, device: String, environment: WidgetEnvironment, significantTimeChange: Bool)

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
        }
    }

    package var app: String {
        switch self {
        case .push(let request), .appChange(let request), .operatorReload(let request): request.app
        case .placed(let placement): placement.app
        case .configured(let app, _, _), .removed(let app, _), .viewed(let app, _),
            .environmentChanged(let app, _, _, _):
            app
        }
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
