extension WidgetCenter {
    // MARK: Reloads

    /// Requests new timelines of one kind.
    ///
    /// - Parameters:
    ///   - kind: name of the kind.
    ///   - audience: widgets to reload.
    ///   - values: limits the reload to widgets whose configuration has these values.
    @discardableResult
    public func reloadTimelines(
        ofKind kind: String, for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.reloadTimelines(ofKind: kind, for: audience, matching: values))
    }

    /// Requests new timelines of several kinds.
    ///
    /// - Parameters:
    ///   - kinds: names of 1 to 1000 kinds.
    ///   - audience: widgets to reload.
    ///   - values: limits the reload to widgets whose configuration has these values.
    @discardableResult
    public func reloadTimelines(
        ofKinds kinds: [String], for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.reloadTimelines(ofKinds: kinds, for: audience, matching: values))
    }

    /// Requests new timelines of all kinds of the app.
    ///
    /// - Parameters:
    ///   - audience: widgets to reload.
    ///   - values: limits the reload to widgets whose configuration has these values.
    @discardableResult
    public func reloadAllTimelines(
        for audience: Audience = .everyone, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.reloadAllTimelines(for: audience, matching: values))
    }

    /// Publishes that data shown by widgets has changed in the app.
    ///
    /// - Parameters:
    ///   - state: whether the app is in the foreground.
    ///   - audience: widgets to reload.
    ///   - kinds: kinds that show it; nil for all.
    ///   - values: limits the reload to widgets whose configuration has these values.
    @discardableResult
    public func appChanged(
        _ state: AppState, for audience: Audience, kinds: [String]? = nil, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.appChanged(state, for: audience, kinds: kinds, matching: values))
    }

    /// Requests new timelines on behalf of the app's operators, without budget and spacing. For operators' tools only.
    ///
    /// - Parameters:
    ///   - audience: widgets to reload.
    ///   - kinds: kinds to reload; nil for all.
    ///   - values: limits the reload to widgets whose configuration has these values.
    @discardableResult
    public func requestReload(
        for audience: Audience, kinds: [String]? = nil, matching values: [String: Value] = [:]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.requestReload(for: audience, kinds: kinds, matching: values))
    }

    // MARK: Widgets

    /// Publishes that a widget was placed on a device.
    @discardableResult
    public func widgetPlaced(_ widget: Widget) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.widgetPlaced(widget))
    }

    /// Publishes that a widget was configured.
    ///
    /// - Parameters:
    ///   - widget: id of the widget.
    ///   - user: the widget's user, so that the event stays in order behind the placement.
    ///   - configuration: all parameters with their values, not only the changed ones.
    @discardableResult
    public func widgetConfigured(
        _ widget: String, of user: String, configuration: [String: Value]
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.widgetConfigured(widget, of: user, configuration: configuration))
    }

    /// Publishes that a widget was removed.
    ///
    /// - Parameters:
    ///   - widget: id of the widget.
    ///   - user: the widget's user, so that the event stays in order behind the placement.
    @discardableResult
    public func widgetRemoved(_ widget: String, of user: String) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.widgetRemoved(widget, of: user))
    }

    /// Publishes that a widget was viewed. Frequently viewed widgets get more reloads.
    ///
    /// - Parameters:
    ///   - widget: id of the widget.
    ///   - user: the widget's user, so that the event stays in order behind the placement.
    @discardableResult
    public func widgetViewed(_ widget: String, of user: String) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.widgetViewed(widget, of: user))
    }

    /// Publishes that a device's language, time zone or time has changed.
    ///
    /// - Parameters:
    ///   - device: id of the device.
    ///   - user: the device's user, so that the event stays in order behind the placements.
    ///   - environment: the new environment.
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
