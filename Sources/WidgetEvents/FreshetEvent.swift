// SPDX-License-Identifier: Apache-2.0

import JSON
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
        case .reload(let request): EventType(reloading: request.reason)
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

/// An event with its CloudEvents attributes.
package struct DecodedEvent: Hashable, Sendable {
    package var id: String
    package var source: String
    package var time: Timestamp?
    /// W3C trace context, from the `ce_traceparent` or `traceparent` header.
    package var traceparent: String?
    package var event: FreshetEvent
}

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

    /// Whether the time of an event of the type matters. For other types, a time that cannot be read is ignored.
    var usesTime: Bool { topic == .widgets || topic == .donations }

    /// The type of an event that requests reloads.
    package init(reloading reason: ReloadReason) {
        switch reason {
        case .foreground, .background: self = .appChanged
        case .operator: self = .reloadRequested
        case .push, .placed, .configured, .environment, .policy: self = .pushReceived
        }
    }

    /// The type with this name, given as bytes.
    init?(utf8: Span<UInt8>) {
        for type in Self.allCases where Text.equal(utf8, type.rawValue) {
            self = type
            return
        }
        return nil
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

/// Default names of the topics that Freshet publishes to.
package enum OutputTopic {
    package static let timelines = "freshet.timelines"
    package static let suggestions = "freshet.suggestions"
    package static let deadLetters = "freshet.dead-letters"
    package static let decisions = "freshet.decisions"
}

/// A publisher's options for the application of its event, in headers of the message.
package struct EventHandling: Hashable, Sendable {
    /// Whether a lifecycle event is ordered by its arrival, so that it is never older than an applied one.
    package var isOrderedByArrival = false
    /// Owner to whom changes are limited; nil for any.
    package var user: String?
    /// Whether the outcome is kept for an hour, for the publisher to read, and to make repetitions ineffective.
    package var keepsOutcome = false

    package init(isOrderedByArrival: Bool = false, user: String? = nil, keepsOutcome: Bool = false) {
        self.isOrderedByArrival = isOrderedByArrival
        self.user = user
        self.keepsOutcome = keepsOutcome
    }

    /// Name of the header that orders an event by its arrival.
    package static let orderHeader = "freshet-order"
    private static let arrival = "arrival"
    private static let kept = "kept"

    package var headers: [(name: String, value: [UInt8])] {
        var headers: [(name: String, value: [UInt8])] = []
        if isOrderedByArrival { headers.append((Self.orderHeader, Array(Self.arrival.utf8))) }
        if let user { headers.append(("freshet-user", Array(user.utf8))) }
        if keepsOutcome { headers.append(("freshet-outcome", Array(Self.kept.utf8))) }
        return headers
    }

    /// Reads the headers of a message.
    ///
    /// - Throws: ``EventError`` if the user is not a valid id.
    package init(_ attributes: EventAttributes, in bytes: [UInt8]) throws(EventError) {
        func says(_ range: Range<Int>?, _ text: String) -> Bool {
            range.map { bytes[$0].elementsEqual(text.utf8) } ?? false
        }
        isOrderedByArrival = says(attributes.order, Self.arrival)
        if let range = attributes.user {
            guard let text = String(validating: bytes[range], as: UTF8.self) else {
                throw EventError(code: .invalidAttribute, message: "header freshet-user is not UTF-8")
            }
            if let problem = Text.identifierProblem(text) {
                throw EventError(code: .invalidAttribute, message: "header freshet-user: \(problem)")
            }
            user = text
        }
        keepsOutcome = says(attributes.outcome, Self.kept)
    }
}
