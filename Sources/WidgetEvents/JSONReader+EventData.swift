internal import WidgetModel

/// The data of each event type. Every type reads the members that it knows and passes over the others.
extension JSONReader {
    mutating func event(of type: EventType) throws(JSONError) -> FreshetEvent {
        try expect(.object)
        switch type {
        case .pushReceived: return .push(try reloadRequest(for: .push))
        case .appChanged: return .appChange(try reloadRequest(for: nil))
        case .reloadRequested: return .operatorReload(try reloadRequest(for: .operator))
        case .widgetPlaced: return .placed(try placement())
        case .widgetConfigured: return try configured()
        case .widgetRemoved:
            let (app, widget) = try appAndWidget()
            return .removed(app: app, widget: widget)
        case .widgetViewed:
            let (app, widget) = try appAndWidget()
            return .viewed(app: app, widget: widget)
        case .deviceEnvironmentChanged: return try environmentChanged()
        }
    }

    /// - Parameter reason: nil when the data's `state` tells it.
    private mutating func reloadRequest(for reason: ReloadReason?) throws(JSONError) -> ReloadRequest {
        let offset = position
        var app: String?
        var audience: Audience?
        var kinds: KindScope?
        var matching: WidgetConfiguration?
        var reason = reason
        let hasState = reason == nil
        var object = try beginObject()
        while let key = try nextKey(&object) {
            if matches(key, "app") {
                app = try identifier()
            } else if matches(key, "audience") {
                audience = try self.audience()
            } else if matches(key, "kinds") {
                kinds = try kindScope()
            } else if matches(key, "matching") {
                guard try !takeNull() else { continue }
                let predicate = try WidgetConfiguration(from: &self)
                // Every configuration contains the empty one, so that such a request stays O(1).
                matching = predicate.isEmpty ? nil : predicate
            } else if hasState, matches(key, "state") {
                reason = try appState()
            } else {
                try skip()
            }
        }
        guard let app else { throw missing("app", inObjectAt: offset) }
        guard let audience else { throw missing("audience", inObjectAt: offset) }
        guard let kinds else { throw missing("kinds", inObjectAt: offset) }
        guard let reason else { throw missing("state", inObjectAt: offset) }
        return ReloadRequest(app: app, audience: audience, kinds: kinds, matching: matching, reason: reason)
    }

    private mutating func placement() throws(JSONError) -> WidgetPlacement {
        let offset = position
        var app: String?
        var widget: String?
        var user: String?
        var device: String?
        var kind: String?
        var family: WidgetFamily?
        var configuration = WidgetConfiguration.empty
        var environment: WidgetEnvironment?
        var object = try beginObject()
        while let key = try nextKey(&object) {
            if matches(key, "app") {
                app = try identifier()
            } else if matches(key, "widget") {
                widget = try identifier()
            } else if matches(key, "user") {
                user = try identifier()
            } else if matches(key, "device") {
                device = try identifier()
            } else if matches(key, "kind") {
                kind = try identifier()
            } else if matches(key, "family") {
                family = try self.family()
            } else if matches(key, "configuration") {
                guard try !takeNull() else { continue }
                configuration = try WidgetConfiguration(from: &self)
            } else if matches(key, "environment") {
                environment = try self.environment()
            } else {
                try skip()
            }
        }
        guard let app else { throw missing("app", inObjectAt: offset) }
        guard let widget else { throw missing("widget", inObjectAt: offset) }
        guard let user else { throw missing("user", inObjectAt: offset) }
        guard let device else { throw missing("device", inObjectAt: offset) }
        guard let kind else { throw missing("kind", inObjectAt: offset) }
        guard let family else { throw missing("family", inObjectAt: offset) }
        guard let environment else { throw missing("environment", inObjectAt: offset) }
        return WidgetPlacement(
            app: app, widget: widget, user: user, device: device, kind: kind, family: family,
            configuration: configuration, environment: environment)
    }

    private mutating func configured() throws(JSONError) -> FreshetEvent {
        let offset = position
        var app: String?
        var widget: String?
        var configuration: WidgetConfiguration?
        var object = try beginObject()
        while let key = try nextKey(&object) {
            if matches(key, "app") {
                app = try identifier()
            } else if matches(key, "widget") {
                widget = try identifier()
            } else if matches(key, "configuration") {
                configuration = try WidgetConfiguration(from: &self)
            } else {
                try skip()
            }
        }
        guard let app else { throw missing("app", inObjectAt: offset) }
        guard let widget else { throw missing("widget", inObjectAt: offset) }
        guard let configuration else { throw missing("configuration", inObjectAt: offset) }
        return .configured(app: app, widget: widget, configuration: configuration)
    }

    private mutating func appAndWidget() throws(JSONError) -> (app: String, widget: String) {
        let offset = position
        var app: String?
        var widget: String?
        var object = try beginObject()
        while let key = try nextKey(&object) {
            if matches(key, "app") {
                app = try identifier()
            } else if matches(key, "widget") {
                widget = try identifier()
            } else {
                try skip()
            }
        }
        guard let app else { throw missing("app", inObjectAt: offset) }
        guard let widget else { throw missing("widget", inObjectAt: offset) }
        return (app, widget)
    }

    private mutating func environmentChanged() throws(JSONError) -> FreshetEvent {
        let offset = position
        var app: String?
        var device: String?
        var environment: WidgetEnvironment?
        var significantTimeChange = false
        var object = try beginObject()
        while let key = try nextKey(&object) {
            if matches(key, "app") {
                app = try identifier()
            } else if matches(key, "device") {
                device = try identifier()
            } else if matches(key, "environment") {
                environment = try self.environment()
            } else if matches(key, "significantTimeChange") {
                guard try !takeNull() else { continue }
                significantTimeChange = try bool()
            } else {
                try skip()
            }
        }
        guard let app else { throw missing("app", inObjectAt: offset) }
        guard let device else { throw missing("device", inObjectAt: offset) }
        guard let environment else { throw missing("environment", inObjectAt: offset) }
        return .environmentChanged(
            app: app, device: device, environment: environment, significantTimeChange: significantTimeChange)
    }
}
