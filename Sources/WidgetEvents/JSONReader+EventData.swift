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
        }
    }

    /// All errors of the data of an event that ``event(of:)`` refuses: one for each member, in the order of the data, then
    /// those of missing members.
    mutating func problems(of type: EventType) -> [JSONError] {
        let members = type.members
        var problems: [JSONError] = []
        do throws(JSONError) {
            try expect(.object)
            var data = EventData(offset: position)
            var open = members.filter(\.isRequired)
            var object = try beginObject()
            while let key = try nextKey(&object) {
                guard let member = members.first(where: { matches(key, $0.name) }) else {
                    try skip()
                    continue
                }
                open.removeAll { $0 == member }
                let start = checkpoint
                do throws(JSONError) {
                    try data.read(member, from: &self)
                } catch {
                    problems.append(error)
                    rewind(to: start)
                    try skip()
                }
            }
            try finish()
            problems += open.map { missing("\($0.name)", inObjectAt: data.offset) }
        } catch {
            // A member that is broken in itself cannot be skipped either.
            if problems.last != error { problems.append(error) }
        }
        return problems
    }

    /// - Parameter reason: nil if the data's `state` tells it.
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
        guard let value else { throw missing(name, inObjectAt: data.offset) }
        return value
    }
}

extension EventType {
    /// The members of the type's data.
    fileprivate var members: [EventData.Member] {
        switch self {
        case .pushReceived, .reloadRequested: [.app, .audience, .kinds, .matching]
        case .appChanged: [.app, .audience, .kinds, .matching, .state]
        case .widgetPlaced: [.app, .widget, .user, .device, .kind, .family, .configuration, .environment]
        case .widgetConfigured: [.app, .widget, .requiredConfiguration]
        case .widgetRemoved, .widgetViewed: [.app, .widget]
        case .deviceEnvironmentChanged: [.app, .device, .environment, .significantTimeChange]
        }
    }
}

/// The members of an event's data.
private struct EventData {
    enum Member {
        case app, audience, kinds, matching, state, widget, user, device, kind, family
        /// May be null or missing.
        case configuration
        case requiredConfiguration
        case environment, significantTimeChange

        var isRequired: Bool {
            switch self {
            case .matching, .configuration, .significantTimeChange: false
            default: true
            }
        }

        var name: StaticString {
            switch self {
            case .app: "app"
            case .audience: "audience"
            case .kinds: "kinds"
            case .matching: "matching"
            case .state: "state"
            case .widget: "widget"
            case .user: "user"
            case .device: "device"
            case .kind: "kind"
            case .family: "family"
            case .configuration, .requiredConfiguration: "configuration"
            case .environment: "environment"
            case .significantTimeChange: "significantTimeChange"
            }
        }
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
    /// Index of the data in the reader's bytes.
    let offset: Int

    init(offset: Int) {
        self.offset = offset
    }

    init(_ members: [Member], from reader: inout JSONReader) throws(JSONError) {
        try reader.expect(.object)
        offset = reader.position
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if let member = members.first(where: { reader.matches(key, $0.name) }) {
                try read(member, from: &reader)
            } else {
                try reader.skip()
            }
        }
    }

    mutating func read(_ member: Member, from reader: inout JSONReader) throws(JSONError) {
        switch member {
        case .app: app = try reader.identifier()
        case .audience: audience = try reader.audience()
        case .kinds: kinds = try reader.kindScope()
        case .matching:
            guard try !reader.takeNull() else { return }
            let predicate = try WidgetConfiguration(from: &reader)
            // Every configuration contains the empty one, so that such a request stays O(1).
            matching = predicate.isEmpty ? nil : predicate
        case .state: state = try reader.appState()
        case .widget: widget = try reader.identifier()
        case .user: user = try reader.identifier()
        case .device: device = try reader.identifier()
        case .kind: kind = try reader.identifier()
        case .family: family = try reader.family()
        case .configuration:
            guard try !reader.takeNull() else { return }
            configuration = try WidgetConfiguration(from: &reader)
        case .requiredConfiguration: configuration = try WidgetConfiguration(from: &reader)
        case .environment: environment = try reader.environment()
        case .significantTimeChange:
            guard try !reader.takeNull() else { return }
            significantTimeChange = try reader.bool()
        }
    }
}
