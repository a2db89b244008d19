internal import WidgetModel

extension JSONReader {
    /// Reads the data of an event. Each type reads the members that it has and skips the others.
    mutating func event(of type: EventType) throws(JSONError) -> FreshetEvent {
        let data = try EventData(type.members, from: &self)
        let app = try require(data.app, "app", data)
        switch type {
        case .pushReceived: return .push(try reloadRequest(.push, app, data))
        case .appChanged: return .appChange(try reloadRequest(nil, app, data))
        case .reloadRequested: return .operatorReload(try reloadRequest(.operator, app, data))
        case .widgetPlaced: return .placed(try placement(app, data))
        case .widgetConfigured:
            return .configured(
                app: app, widget: try require(data.widget, "widget", data),
                configuration: try require(data.configuration, "configuration", data))
        case .widgetRemoved: return .removed(app: app, widget: try require(data.widget, "widget", data))
        case .widgetViewed: return .viewed(app: app, widget: try require(data.widget, "widget", data))
        case .deviceEnvironmentChanged:
            return .environmentChanged(
                app: app, device: try require(data.device, "device", data),
                environment: try require(data.environment, "environment", data),
                significantTimeChange: data.significantTimeChange)
        case .deviceRegistered:
            return .deviceRegistered(
                app: app,
                DeviceRegistration(
                    user: try require(data.user, "user", data), device: try require(data.device, "device", data),
                    channel: try require(data.channel, "channel", data)))
        case .deviceUnregistered:
            return .deviceUnregistered(
                app: app, user: try require(data.user, "user", data), device: try require(data.device, "device", data))
        case .stackChanged, .stackTurned, .shortcutsReplaced, .interactionDonated:
            return try personEvent(of: type, app, user: try require(data.user, "user", data), data)
        }
    }

    private func personEvent(
        of type: EventType, _ app: String, user: String, _ data: EventData
    ) throws(JSONError) -> FreshetEvent {
        switch type {
        case .stackChanged:
            let stack = StackArrangement(
                device: try require(data.device, "device", data), name: try require(data.stack, "stack", data),
                widgets: try require(data.widgets, "widgets", data), smartRotate: data.smartRotate,
                suggestions: data.suggestions)
            return .stackChanged(app: app, user: user, stack)
        case .stackTurned:
            return .stackTurned(
                app: app, user: user, device: try require(data.device, "device", data),
                stack: try require(data.stack, "stack", data), widget: try require(data.widget, "widget", data))
        case .shortcutsReplaced:
            let shortcuts = try require(data.shortcuts, "shortcuts", data).map { shortcut in
                var shortcut = shortcut
                shortcut.content.app = app
                return shortcut
            }
            return .shortcutsReplaced(app: app, user: user, device: data.device, shortcuts)
        default:
            return .interactionDonated(
                app: app, user: user,
                DonatedInteraction(
                    kind: try require(data.kind, "kind", data), configuration: data.configuration ?? .empty,
                    device: data.device, timeZone: data.timeZone))
        }
    }

    /// All errors of data that ``event(of:)`` refuses: at most one for each member in the order of the data, then those
    /// of missing members.
    mutating func problems(of type: EventType) -> [JSONError] {
        var problems: [JSONError] = []
        do throws(JSONError) {
            var data = EventData()
            var open = type.members.required
            var object = try beginObject()
            while let key = try nextKey(&object) {
                open.removeAll { $0.rawValue == text(of: key) }
                let start = checkpoint
                do throws(JSONError) {
                    try data.read(key, of: type.members, from: &self)
                } catch {
                    problems.append(error)
                    rewind(to: start)
                    try skip()
                }
            }
            try finish()
            problems += open.map { missing($0.rawValue, inObjectAt: object.start) }
        } catch {
            // A member that is broken in itself cannot be skipped either.
            if problems.last != error { problems.append(error) }
        }
        return problems
    }

    /// - Parameter reason: nil for the one of the data's `state`.
    private func reloadRequest(
        _ reason: ReloadReason?, _ app: String, _ data: EventData
    ) throws(JSONError) -> ReloadRequest {
        ReloadRequest(
            app: app, audience: try require(data.audience, "audience", data),
            kinds: try require(data.kinds, "kinds", data), matching: data.matching,
            reason: try require(reason ?? data.state, "state", data))
    }

    private func placement(_ app: String, _ data: EventData) throws(JSONError) -> WidgetPlacement {
        WidgetPlacement(
            app: app, widget: try require(data.widget, "widget", data),
            user: try require(data.user, "user", data), device: try require(data.device, "device", data),
            kind: try require(data.kind, "kind", data), family: try require(data.family, "family", data),
            configuration: data.configuration ?? .empty,
            environment: try require(data.environment, "environment", data))
    }

    private func require<Value>(_ value: Value?, _ name: String, _ data: EventData) throws(JSONError) -> Value {
        guard let value else { throw missing(name, inObjectAt: data.start) }
        return value
    }
}

extension EventType {
    /// The members of the type's data; optional ones may be null.
    fileprivate var members: (required: [EventData.Member], optional: [EventData.Member]) {
        switch self {
        case .pushReceived, .reloadRequested: ([.app, .audience, .kinds], [.matching])
        case .appChanged: ([.app, .audience, .kinds, .state], [.matching])
        case .widgetPlaced: ([.app, .widget, .user, .device, .kind, .family, .environment], [.configuration])
        case .widgetConfigured: ([.app, .widget, .configuration], [])
        case .widgetRemoved, .widgetViewed: ([.app, .widget], [])
        case .deviceEnvironmentChanged: ([.app, .device, .environment], [.significantTimeChange])
        case .stackChanged: ([.app, .user, .device, .stack, .widgets], [.smartRotate, .suggestions])
        case .stackTurned: ([.app, .user, .device, .stack, .widget], [])
        case .shortcutsReplaced: ([.app, .user, .shortcuts], [.device])
        case .interactionDonated: ([.app, .user, .kind], [.configuration, .device, .timeZone])
        case .deviceRegistered: ([.app, .user, .device, .channel], [])
        case .deviceUnregistered: ([.app, .user, .device], [])
        }
    }
}

/// The members of an event's data.
private struct EventData {
    enum Member: String {
        case app, audience, kinds, matching, state, widget, user, device, kind, family, configuration, environment
        case significantTimeChange, stack, widgets, smartRotate, suggestions, shortcuts, timeZone, channel
    }

    private(set) var app: String?
    private(set) var audience: Audience?
    private(set) var kinds: KindScope?
    private(set) var matching: WidgetConfiguration?
    private(set) var state: ReloadReason?
    private(set) var widget: String?
    private(set) var user: String?
    private(set) var device: String?
    private(set) var kind: String?
    private(set) var family: WidgetFamily?
    private(set) var configuration: WidgetConfiguration?
    private(set) var environment: WidgetEnvironment?
    private(set) var significantTimeChange = false
    private(set) var stack: String?
    private(set) var widgets: [String]?
    private(set) var smartRotate = true
    private(set) var suggestions = true
    /// Without the name of their app.
    private(set) var shortcuts: [RelevantShortcut]?
    private(set) var timeZone: String?
    private(set) var channel: DeliveryChannel?
    /// Index of the data in the reader's bytes.
    private(set) var start = 0

    init() {}

    init(
        _ members: (required: [Member], optional: [Member]), from reader: inout JSONReader
    ) throws(JSONError) {
        var object = try reader.beginObject()
        start = object.start
        while let key = try reader.nextKey(&object) { try read(key, of: members, from: &reader) }
    }

    /// Reads a member of the type, or skips any other.
    mutating func read(
        _ key: JSONStringToken, of members: (required: [Member], optional: [Member]), from reader: inout JSONReader
    ) throws(JSONError) {
        let member = Member(rawValue: reader.text(of: key))
        if let member, members.required.contains(member) {
            try read(member, from: &reader)
        } else if let member, members.optional.contains(member) {
            if try !reader.takeNull() { try read(member, from: &reader) }
        } else {
            try reader.skip()
        }
    }

    private mutating func read(_ member: Member, from reader: inout JSONReader) throws(JSONError) {
        switch member {
        case .app: app = try reader.identifier()
        case .audience: audience = try reader.audience()
        case .kinds: kinds = try reader.kindScope()
        case .matching:
            let predicate = try WidgetConfiguration(from: &reader)
            // Every configuration contains the empty one, so that such a request stays O(1).
            matching = predicate.isEmpty ? nil : predicate
        case .state: state = try reader.appState()
        case .widget: widget = try reader.identifier()
        case .user: user = try reader.identifier()
        case .device: device = try reader.identifier()
        case .kind: kind = try reader.identifier()
        case .family: family = try reader.family()
        case .configuration: configuration = try WidgetConfiguration(from: &reader)
        case .environment: environment = try reader.environment()
        case .significantTimeChange: significantTimeChange = try reader.bool()
        case .stack: stack = try reader.identifier()
        case .widgets: widgets = try reader.widgetsOfStack()
        case .smartRotate: smartRotate = try reader.bool()
        case .suggestions: suggestions = try reader.bool()
        case .shortcuts: shortcuts = try reader.shortcuts()
        case .timeZone: timeZone = try reader.timeZone()
        case .channel: channel = try reader.deliveryChannel()
        }
    }
}
