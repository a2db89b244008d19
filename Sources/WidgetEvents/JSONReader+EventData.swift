import JSON
internal import WidgetModel

/// Reads the data of events.
///
/// Variables for required members have placeholder values, which are never returned: `members` throws if a member is
/// missing.
extension JSONReader {
    mutating func event(of type: EventType) throws(JSONError) -> FreshetEvent {
        var problems: [JSONError]?
        return try event(of: type, &problems)
    }

    /// All errors of data that ``event(of:)`` refuses: at most one for each member in the order of the data, then those
    /// of missing members. Bytes behind the data are an error if there is no other.
    mutating func problems(of type: EventType) -> [JSONError] {
        var problems: [JSONError]? = []
        do throws(JSONError) {
            _ = try event(of: type, &problems)
            try finish()
        } catch {
            if problems?.last != error { problems?.append(error) }
        }
        return problems ?? []
    }

    /// - Parameter problems: receives the errors of members; nil to throw the first one.
    private mutating func event(
        of type: EventType, _ problems: inout [JSONError]?
    ) throws(JSONError) -> FreshetEvent {
        switch type {
        case .pushReceived, .appChanged, .reloadRequested: try reloadEvent(type, &problems)
        case .widgetPlaced: try placementEvent(&problems)
        case .widgetConfigured, .widgetRemoved, .widgetViewed: try widgetEvent(type, &problems)
        case .deviceEnvironmentChanged, .deviceRegistered, .deviceUnregistered: try deviceEvent(type, &problems)
        case .stackChanged, .stackTurned: try stackEvent(type, &problems)
        case .shortcutsReplaced: try shortcutsEvent(&problems)
        case .interactionDonated: try interactionEvent(&problems)
        }
    }

    private mutating func reloadEvent(
        _ type: EventType, _ problems: inout [JSONError]?
    ) throws(JSONError) -> FreshetEvent {
        var (app, audience, kinds) = ("", Audience.everyone, KindScope.all)
        var matching: WidgetConfiguration?
        var reason = type == .reloadRequested ? ReloadReason.operator : .push
        try members(of: type, &problems) { (reader, key) throws(JSONError) in
            switch key {
            case "audience": audience = try reader.audience()
            case "kinds": kinds = try reader.kindScope()
            case "matching":
                let predicate = try WidgetConfiguration(from: &reader)
                // Every configuration contains the empty one, so that such a request stays O(1).
                matching = predicate.isEmpty ? nil : predicate
            case "state": reason = try reader.appState()
            case "app": app = try reader.identifier()
            default: try reader.skip()
            }
        }
        return FreshetEvent(
            ReloadRequest(app: app, audience: audience, kinds: kinds, matching: matching, reason: reason))
    }

    private mutating func placementEvent(_ problems: inout [JSONError]?) throws(JSONError) -> FreshetEvent {
        var placement = WidgetPlacement(
            app: "", widget: "", user: "", device: "", kind: "", family: .systemSmall,
            environment: WidgetEnvironment(storedLocale: "", timeZone: ""))
        try members(of: .widgetPlaced, &problems) { (reader, key) throws(JSONError) in
            switch key {
            case "widget": placement.widget = try reader.identifier()
            case "user": placement.user = try reader.identifier()
            case "device": placement.device = try reader.identifier()
            case "kind": placement.kind = try reader.identifier()
            case "family": placement.family = try reader.family()
            case "configuration": placement.configuration = try WidgetConfiguration(from: &reader)
            case "environment": placement.environment = try reader.environment()
            case "app": placement.app = try reader.identifier()
            default: try reader.skip()
            }
        }
        return FreshetEvent(placement)
    }

    private mutating func widgetEvent(
        _ type: EventType, _ problems: inout [JSONError]?
    ) throws(JSONError) -> FreshetEvent {
        var (app, widget, configuration) = ("", "", WidgetConfiguration.empty)
        try members(of: type, &problems) { (reader, key) throws(JSONError) in
            switch key {
            case "widget": widget = try reader.identifier()
            case "configuration": configuration = try WidgetConfiguration(from: &reader)
            case "app": app = try reader.identifier()
            default: try reader.skip()
            }
        }
        let change: FreshetEvent.Change =
            switch type {
            case .widgetConfigured: .widget(.configured(widget: widget, configuration))
            case .widgetRemoved: .widget(.removed(widget: widget))
            default: .view(widget: widget)
            }
        return FreshetEvent(app: app, change)
    }

    private mutating func deviceEvent(
        _ type: EventType, _ problems: inout [JSONError]?
    ) throws(JSONError) -> FreshetEvent {
        var (app, device, channel, isSignificant) = ("", "", DeliveryChannel.webhook, false)
        var user: String?
        var environment = WidgetEnvironment(storedLocale: "", timeZone: "")
        try members(of: type, &problems) { (reader, key) throws(JSONError) in
            switch key {
            case "user": user = try reader.identifier()
            case "device": device = try reader.identifier()
            case "environment": environment = try reader.environment()
            case "significantTimeChange": isSignificant = try reader.bool()
            case "channel": channel = try reader.deliveryChannel()
            case "app": app = try reader.identifier()
            default: try reader.skip()
            }
        }
        let change: DeviceChange =
            switch type {
            case .deviceRegistered: .registered(device: device, channel)
            case .deviceUnregistered: .unregistered(device: device)
            default: .environment(device: device, environment, isSignificant: isSignificant)
            }
        return FreshetEvent(app: app, user: user, .device(change))
    }

    private mutating func stackEvent(
        _ type: EventType, _ problems: inout [JSONError]?
    ) throws(JSONError) -> FreshetEvent {
        var (app, user, widget) = ("", "", "")
        var stack = StackArrangement(device: "", name: "", widgets: [])
        try members(of: type, &problems) { (reader, key) throws(JSONError) in
            switch key {
            case "user": user = try reader.identifier()
            case "device": stack.device = try reader.identifier()
            case "stack": stack.name = try reader.identifier()
            case "widget": widget = try reader.identifier()
            case "widgets": stack.widgets = try reader.widgetsOfStack()
            case "smartRotate": stack.smartRotate = try reader.bool()
            case "suggestions": stack.suggestions = try reader.bool()
            case "app": app = try reader.identifier()
            default: try reader.skip()
            }
        }
        return FreshetEvent(
            app: app, user: user,
            .person(
                type == .stackChanged
                    ? .stack(stack) : .turned(device: stack.device, stack: stack.name, widget: widget)))
    }

    private mutating func shortcutsEvent(_ problems: inout [JSONError]?) throws(JSONError) -> FreshetEvent {
        var (app, user, shortcuts) = ("", "", [RelevantShortcut]())
        var device: String?
        try members(of: .shortcutsReplaced, &problems) { (reader, key) throws(JSONError) in
            switch key {
            case "user": user = try reader.identifier()
            case "device": device = try reader.identifier()
            case "shortcuts": shortcuts = try reader.shortcuts()
            case "app": app = try reader.identifier()
            default: try reader.skip()
            }
        }
        for index in shortcuts.indices { shortcuts[index].content.app = app }
        return FreshetEvent(app: app, user: user, .person(.shortcuts(device: device, shortcuts)))
    }

    private mutating func interactionEvent(_ problems: inout [JSONError]?) throws(JSONError) -> FreshetEvent {
        var (app, user, interaction) = ("", "", DonatedInteraction(kind: ""))
        try members(of: .interactionDonated, &problems) { (reader, key) throws(JSONError) in
            switch key {
            case "user": user = try reader.identifier()
            case "kind": interaction.kind = try reader.identifier()
            case "configuration": interaction.configuration = try WidgetConfiguration(from: &reader)
            case "device": interaction.device = try reader.identifier()
            case "timeZone": interaction.timeZone = try reader.timeZone()
            case "app": app = try reader.identifier()
            default: try reader.skip()
            }
        }
        return FreshetEvent(app: app, user: user, .interaction(interaction))
    }

    /// Reads the members that the type has, and skips others. Returns if none of the required ones is missing.
    ///
    /// - Parameters:
    ///   - problems: receives the errors of members, of which the last is thrown; nil to throw the first one.
    ///   - read: reads the value of the member with this key.
    private mutating func members(
        of type: EventType, _ problems: inout [JSONError]?,
        _ read: (inout JSONReader, JSONKey) throws(JSONError) -> Void
    ) throws(JSONError) {
        let members = type.members
        var found: UInt32 = 0
        let object = try beginObject()
        while let key = try nextKey() {
            if let index = members.required.firstIndex(where: { $0 ~= key }) {
                found |= 1 << UInt32(index)
            } else if !members.optional.contains(where: { $0 ~= key }) {
                try skip()
                continue
            } else if try takeNull() {
                continue
            }
            let start = checkpoint
            do throws(JSONError) {
                try read(&self, key)
            } catch {
                if problems == nil { throw error }
                problems?.append(error)
                rewind(to: start)
                try skip()
            }
        }
        for (index, name) in members.required.enumerated() where found & (1 << UInt32(index)) == 0 {
            let error = missing("\(name)", inObjectAt: object)
            if problems == nil { throw error }
            problems?.append(error)
        }
        if let last = problems?.last { throw last }
    }
}

/// The members of a type's data; optional ones may be null.
private struct EventMembers: Sendable {
    let required: [ShortText]
    var optional: [ShortText] = []

    static let reload = EventMembers(required: ["app", "audience", "kinds"], optional: ["matching"])
    static let appChange = EventMembers(required: ["app", "audience", "kinds", "state"], optional: ["matching"])
    static let placement = EventMembers(
        required: ["app", "widget", "user", "device", "kind", "family", "environment"], optional: ["configuration"])
    static let configuration = EventMembers(required: ["app", "widget", "configuration"])
    static let widget = EventMembers(required: ["app", "widget"])
    static let environment = EventMembers(
        required: ["app", "device", "environment"], optional: ["significantTimeChange"])
    static let registration = EventMembers(required: ["app", "user", "device", "channel"])
    static let device = EventMembers(required: ["app", "user", "device"])
    static let stack = EventMembers(
        required: ["app", "user", "device", "stack", "widgets"], optional: ["smartRotate", "suggestions"])
    static let turn = EventMembers(required: ["app", "user", "device", "stack", "widget"])
    static let shortcuts = EventMembers(required: ["app", "user", "shortcuts"], optional: ["device"])
    static let interaction = EventMembers(
        required: ["app", "user", "kind"], optional: ["configuration", "device", "timeZone"])
}

extension EventType {
    fileprivate var members: EventMembers {
        switch self {
        case .pushReceived, .reloadRequested: .reload
        case .appChanged: .appChange
        case .widgetPlaced: .placement
        case .widgetConfigured: .configuration
        case .widgetRemoved, .widgetViewed: .widget
        case .deviceEnvironmentChanged: .environment
        case .deviceRegistered: .registration
        case .deviceUnregistered: .device
        case .stackChanged: .stack
        case .stackTurned: .turn
        case .shortcutsReplaced: .shortcuts
        case .interactionDonated: .interaction
        }
    }
}
