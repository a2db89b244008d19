package import WidgetModel

/// A consumed event about one app.
package struct FreshetEvent: Hashable, Sendable {
    package enum Change: Hashable, Sendable {
        /// Requests new timelines.
        case reload(ReloadRequest)
        // Rarer and larger than a reload or a view, which are copied with every step.
        indirect case widget(WidgetChange)
        /// A widget was seen.
        case view(widget: String)
        indirect case device(DeviceChange)
        indirect case person(PersonChange)
        /// Content was seen in the app.
        indirect case interaction(DonatedInteraction)
    }

    package let app: String
    /// User of a placement, a registration, a stack, shortcuts or an interaction; nil for other events.
    package let user: String?
    package let change: Change

    package init(app: String, user: String? = nil, _ change: Change) {
        self.app = app
        self.user = user
        self.change = change
    }

    package init(_ request: ReloadRequest) {
        self.init(app: request.app, .reload(request))
    }

    package init(_ placement: WidgetPlacement) {
        self.init(app: placement.app, user: placement.user, .widget(.placed(placement)))
    }

    package var type: EventType {
        switch change {
        case .reload(let request):
            switch request.reason {
            case .foreground, .background: .appChanged
            case .operator: .reloadRequested
            case .push, .placed, .configured, .environment, .policy: .pushReceived
            }
        case .widget(.placed): .widgetPlaced
        case .widget(.configured): .widgetConfigured
        case .widget(.removed): .widgetRemoved
        case .view: .widgetViewed
        case .device(.environment): .deviceEnvironmentChanged
        case .device(.registered): .deviceRegistered
        case .device(.unregistered): .deviceUnregistered
        case .person(.stack): .stackChanged
        case .person(.turned): .stackTurned
        case .person(.shortcuts): .shortcutsReplaced
        case .interaction: .interactionDonated
        }
    }

    /// The widget that the event is about; nil for other events.
    package var widget: String? {
        switch change {
        case .widget(let change): change.widget
        case .view(let widget): widget
        case .reload, .device, .person, .interaction: nil
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
