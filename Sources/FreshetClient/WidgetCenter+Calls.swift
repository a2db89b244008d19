extension WidgetCenter {
    // MARK: Reloads

    /// Asks for new timelines of one kind.
    ///
    /// - Parameters:
    ///   - kind: reloads this one.
    ///   - audience: whose widgets.
    ///   - values: reloads only widgets whose configuration has these values; all when empty.
    @discardableResult
    public func reloadTimelines(
        ofKind kind: String, for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.reloadTimelines(ofKind: kind, for: audience, matching: values))
    }

    /// Asks for new timelines of several kinds.
    ///
    /// - Parameters:
    ///   - kinds: from 1 to 1000 of them.
    ///   - audience: whose widgets.
    ///   - values: reloads only widgets whose configuration has these values; all when empty.
    @discardableResult
    public func reloadTimelines(
        ofKinds kinds: [String], for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.reloadTimelines(ofKinds: kinds, for: audience, matching: values))
    }

    /// Asks for new timelines of all kinds of the app.
    ///
    /// - Parameters:
    ///   - audience: whose widgets.
    ///   - values: reloads only widgets whose configuration has these values; all when empty.
    @discardableResult
    public func reloadAllTimelines(
        for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.reloadAllTimelines(for: audience, matching: values))
    }

    /// Says that something that widgets show has changed in the app itself.
    ///
    /// - Parameters:
    ///   - state: whether the person is looking at the app.
    ///   - audience: whose widgets.
    ///   - kinds: that show it; nil means all.
    ///   - values: only widgets whose configuration has these values; all when empty.
    @discardableResult
    public func appChanged(
        _ state: AppState, for audience: Audience, kinds: [String]? = nil, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.appChanged(state, for: audience, kinds: kinds, matching: values))
    }

    /// Asks for new timelines as the app's operators do: nothing holds the reload back, neither budget nor spacing. For
    /// their tools only; what happens in the app is for the other calls to tell.
    ///
    /// - Parameters:
    ///   - audience: whose widgets.
    ///   - kinds: that are reloaded; nil means all.
    ///   - values: reloads only widgets whose configuration has these values; all when empty.
    @discardableResult
    public func requestReload(
        for audience: Audience, kinds: [String]? = nil, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.requestReload(for: audience, kinds: kinds, matching: values))
    }

    // MARK: Widgets

    /// Says that a person has put a widget on a device.
    @discardableResult
    public func widgetPlaced(_ widget: Widget) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.widgetPlaced(widget))
    }

    /// Says that a person has chosen other values for a widget's parameters.
    ///
    /// - Parameters:
    ///   - widget: its id.
    ///   - user: whose widget it is, so that the event stays in order behind the placement.
    ///   - configuration: all parameters with their values, not only the changed ones.
    @discardableResult
    public func widgetConfigured(
        _ widget: String, of user: String, configuration: [String: Value]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.widgetConfigured(widget, of: user, configuration: configuration))
    }

    /// Says that a person has taken a widget away.
    ///
    /// - Parameters:
    ///   - widget: its id.
    ///   - user: whose widget it is, so that the event stays in order behind the placement.
    @discardableResult
    public func widgetRemoved(_ widget: String, of user: String) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.widgetRemoved(widget, of: user))
    }

    /// Says that a widget was on a screen that a person looked at. How often it is decides how many reloads it may
    /// have.
    ///
    /// - Parameters:
    ///   - widget: its id.
    ///   - user: whose widget it is, so that the event stays in order behind the placement.
    @discardableResult
    public func widgetViewed(_ widget: String, of user: String) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.widgetViewed(widget, of: user))
    }

    /// Says that a device has another language or time zone, or that its time has jumped.
    ///
    /// - Parameters:
    ///   - device: its id.
    ///   - user: whose device it is, so that the event stays in order behind the placements.
    ///   - environment: as it is now.
    ///   - significantTimeChange: midnight passed, or the clock or the time zone was set.
    @discardableResult
    public func environmentChanged(
        ofDevice device: String, of user: String, to environment: Environment, significantTimeChange: Bool = false
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(
            .environmentChanged(
                ofDevice: device, of: user, to: environment, significantTimeChange: significantTimeChange))
    }
}
