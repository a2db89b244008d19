import WidgetModel

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// An event for ``WidgetCenter/publish(_:)-([WidgetEvent])``.
///
/// The functions that make events have the names of ``WidgetCenter``'s calls. Arguments are checked when the event is
/// published.
///
/// An event keeps its id and date. Published again after an error, it is the same event and does not override later ones.
public struct WidgetEvent: Hashable, Sendable {
    enum Content: Hashable, Sendable {
        case push(ReloadScope)
        case appChange(WidgetCenter.AppState, ReloadScope)
        case operatorReload(ReloadScope)
        case placed(WidgetCenter.Widget)
        case configured(widget: String, user: String, configuration: [String: WidgetCenter.Value])
        case removed(widget: String, user: String)
        case viewed(widget: String, user: String)
        case environmentChanged(
            device: String, user: String, environment: WidgetCenter.Environment, significantTimeChange: Bool)
        case person(PersonContent)
    }

    /// Scope of a reload request.
    struct ReloadScope: Hashable, Sendable {
        /// Nil for all kinds.
        var kinds: [String]?
        var audience: WidgetCenter.Audience
        var values: [String: WidgetCenter.Value]
    }

    let content: Content
    /// The CloudEvents attribute `id`, unique among the events of the center's source: at most 1024 bytes without control
    /// characters. 128 random bits unless it is set.
    public var id: String
    /// Time of the event. Events of one widget take effect in the order of their dates.
    public var date: Date

    init(_ content: Content) {
        self.content = content
        id = RandomID.make()
        date = Date()
    }
}

extension WidgetEvent {
    // MARK: Reloads

    /// New timelines of one kind are needed.
    ///
    /// - Parameters:
    ///   - kind: name of the kind.
    ///   - audience: widgets to reload.
    ///   - values: limits the reload to widgets whose configuration has these values.
    public static func reloadTimelines(
        ofKind kind: String, for audience: WidgetCenter.Audience = .everyone,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reloadTimelines(ofKinds: [kind], for: audience, matching: values)
    }

    /// New timelines of several kinds are needed.
    ///
    /// - Parameters:
    ///   - kinds: names of 1 to 1000 kinds.
    ///   - audience: widgets to reload.
    ///   - values: limits the reload to widgets whose configuration has these values.
    public static func reloadTimelines(
        ofKinds kinds: [String], for audience: WidgetCenter.Audience = .everyone,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        WidgetEvent(.push(ReloadScope(kinds: kinds, audience: audience, values: values)))
    }

    /// New timelines of all kinds of the app are needed.
    ///
    /// - Parameters:
    ///   - audience: widgets to reload.
    ///   - values: limits the reload to widgets whose configuration has these values.
    public static func reloadAllTimelines(
        for audience: WidgetCenter.Audience = .everyone, matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        WidgetEvent(.push(ReloadScope(kinds: nil, audience: audience, values: values)))
    }

    /// Data shown by widgets has changed in the app.
    ///
    /// - Parameters:
    ///   - state: whether the app is in the foreground.
    ///   - audience: widgets to reload.
    ///   - kinds: kinds that show it; nil for all.
    ///   - values: limits the reload to widgets whose configuration has these values.
    public static func appChanged(
        _ state: WidgetCenter.AppState, for audience: WidgetCenter.Audience, kinds: [String]? = nil,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        WidgetEvent(.appChange(state, ReloadScope(kinds: kinds, audience: audience, values: values)))
    }

    /// An operator requests new timelines, without budget and spacing.
    ///
    /// - Parameters:
    ///   - audience: widgets to reload.
    ///   - kinds: kinds to reload; nil for all.
    ///   - values: limits the reload to widgets whose configuration has these values.
    public static func requestReload(
        for audience: WidgetCenter.Audience, kinds: [String]? = nil, matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        WidgetEvent(.operatorReload(ReloadScope(kinds: kinds, audience: audience, values: values)))
    }

    // MARK: Widgets

    /// A widget was placed on a device.
    public static func widgetPlaced(_ widget: WidgetCenter.Widget) -> WidgetEvent {
        WidgetEvent(.placed(widget))
    }

    /// A widget was configured.
    ///
    /// - Parameters:
    ///   - widget: id of the widget.
    ///   - user: the widget's user, so that the event stays in order behind the placement.
    ///   - configuration: all parameters with their values, not only the changed ones.
    public static func widgetConfigured(
        _ widget: String, of user: String, configuration: [String: WidgetCenter.Value]
    ) -> WidgetEvent {
        WidgetEvent(.configured(widget: widget, user: user, configuration: configuration))
    }

    /// A widget was removed.
    ///
    /// - Parameters:
    ///   - widget: id of the widget.
    ///   - user: the widget's user, so that the event stays in order behind the placement.
    public static func widgetRemoved(_ widget: String, of user: String) -> WidgetEvent {
        WidgetEvent(.removed(widget: widget, user: user))
    }

    /// A widget was viewed. Frequently viewed widgets get more reloads.
    ///
    /// - Parameters:
    ///   - widget: id of the widget.
    ///   - user: the widget's user, so that the event stays in order behind the placement.
    public static func widgetViewed(_ widget: String, of user: String) -> WidgetEvent {
        WidgetEvent(.viewed(widget: widget, user: user))
    }

    /// A device's language, time zone or time has changed.
    ///
    /// - Parameters:
    ///   - device: id of the device.
    ///   - user: the device's user, so that the event stays in order behind the placements.
    ///   - environment: the new environment.
    ///   - significantTimeChange: midnight passed, or the clock or the time zone was set.
    public static func environmentChanged(
        ofDevice device: String, of user: String, to environment: WidgetCenter.Environment,
        significantTimeChange: Bool = false
    ) -> WidgetEvent {
        WidgetEvent(
            .environmentChanged(
                device: device, user: user, environment: environment, significantTimeChange: significantTimeChange))
    }
}
