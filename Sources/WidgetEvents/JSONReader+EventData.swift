internal import WidgetModel

extension JSONReader {
    /// Reads the data of an event. Each type reads the members that it has and skips the others.
    mutating func event(of type: EventType) throws(JSONError) -> FreshetEvent {
        switch type {
        case .pushReceived: return .push(try reloadRequest(.push))
        case .appChanged: return .appChange(try reloadRequest(nil))
        case .reloadRequested: return .operatorReload(try reloadRequest(.operator))
        case .widgetPlaced: return .placed(try placement())
        case .widgetConfigured:
            let data = try EventData([.app, .widget, .requiredConfiguration], from: &self)
            return .configured(
                app: try require(data.app, "app", data), widget: try require(data.widget, "widget", data),
                configuration: try require(data.configuration, "configuration", data))
        case .widgetRemoved, .widgetViewed:
            let data = try EventData([.app, .widget], from: &self)
            let (app, widget) = (try require(data.app, "app", data), try require(data.widget, "widget", data))
            return type == .widgetRemoved ? .removed(app: app, widget: widget) : .viewed(app: app, widget: widget)
        case .deviceEnvironmentChanged:
            let data = try EventData([.app, .device, .environment, .significantTimeChange], from: &self)
            return .environmentChanged(
                app: try require(data.app, "app", data), device: try require(data.device, "device", data),
                environment: try require(data.environment, "environment", data),
                significantTimeChange: data.significantTimeChange)
        }
    }

    /// - Parameter reason: nil if the data's `state` tells it.
    private mutating func reloadRequest(_ reason: ReloadReason?) throws(JSONError) -> ReloadRequest {
        let data = try EventData(
            reason == nil ? [.app, .audience, .kinds, .matching, .state] : [.app, .audience, .kinds, .matching],
            from: &self)
        return ReloadRequest(
            app: try require(data.app, "app", data), audience: try require(data.audience, "audience", data),
            kinds: try require(data.kinds, "kinds", data), matching: data.matching,
            reason: try require(reason ?? data.state, "state", data))
    }

    private mutating func placement() throws(JSONError) -> WidgetPlacement {
        let data = try EventData(
            [.app, .widget, .user, .device, .kind, .family, .configuration, .environment], from: &self)
        return WidgetPlacement(
            app: try require(data.app, "app", data), widget: try require(data.widget, "widget", data),
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

/// The members of an event's data.
private struct EventData {
    enum Member {
        case app, audience, kinds, matching, state, widget, user, device, kind, family
        /// May be null or missing.
        case configuration
        case requiredConfiguration
        case environment, significantTimeChange

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

    private mutating func read(_ member: Member, from reader: inout JSONReader) throws(JSONError) {
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
