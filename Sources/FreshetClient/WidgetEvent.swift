import WidgetModel

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// Something that happened in an app, for ``WidgetCenter/publish(_:)-([WidgetEvent])``, which takes many at once.
///
/// There is one function for each thing that Freshet is told, with the names of ``WidgetCenter``'s own. Arguments are
/// checked when the event is published.
///
/// An event keeps its id and its date, so that the same value, published again after an error, is the same event:
/// it changes nothing that a later event has changed since.
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
    }

    /// What a request asks to be reloaded.
    struct ReloadScope: Hashable, Sendable {
        /// Nil means all.
        var kinds: [String]?
        var audience: WidgetCenter.Audience
        var values: [String: WidgetCenter.Value]
    }

    let content: Content
    /// Unique among the events of the center's source: the attribute `id` of the CloudEvent. At most 1024 bytes,
    /// without control characters. 128 random bits unless it is set.
    public var id: String
    /// When it happened: now, unless it is set. Events of one widget take effect in the order of their dates.
    public var date: Date

    private init(_ content: Content) {
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
    ///   - kind: reloads this one.
    ///   - audience: whose widgets.
    ///   - values: reloads only widgets whose configuration has these values; all when empty.
    public static func reloadTimelines(
        ofKind kind: String, for audience: WidgetCenter.Audience = .everyone,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reloadTimelines(ofKinds: [kind], for: audience, matching: values)
    }

    /// New timelines of several kinds are needed.
    ///
    /// - Parameters:
    ///   - kinds: from 1 to 1000 of them.
    ///   - audience: whose widgets.
    ///   - values: reloads only widgets whose configuration has these values; all when empty.
    public static func reloadTimelines(
        ofKinds kinds: [String], for audience: WidgetCenter.Audience = .everyone,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        WidgetEvent(.push(ReloadScope(kinds: kinds, audience: audience, values: values)))
    }

    /// New timelines of all kinds of the app are needed.
    ///
    /// - Parameters:
    ///   - audience: whose widgets.
    ///   - values: reloads only widgets whose configuration has these values; all when empty.
    public static func reloadAllTimelines(
        for audience: WidgetCenter.Audience = .everyone, matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        WidgetEvent(.push(ReloadScope(kinds: nil, audience: audience, values: values)))
    }

    /// Something that widgets show has changed in the app itself.
    ///
    /// - Parameters:
    ///   - state: whether the person is looking at the app.
    ///   - audience: whose widgets.
    ///   - kinds: that show it; nil means all.
    ///   - values: only widgets whose configuration has these values; all when empty.
    public static func appChanged(
        _ state: WidgetCenter.AppState, for audience: WidgetCenter.Audience, kinds: [String]? = nil,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        WidgetEvent(.appChange(state, ReloadScope(kinds: kinds, audience: audience, values: values)))
    }

    /// An operator of the app asks for new timelines, which neither budget nor spacing holds back.
    ///
    /// - Parameters:
    ///   - audience: whose widgets.
    ///   - kinds: that are reloaded; nil means all.
    ///   - values: reloads only widgets whose configuration has these values; all when empty.
    public static func requestReload(
        for audience: WidgetCenter.Audience, kinds: [String]? = nil, matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        WidgetEvent(.operatorReload(ReloadScope(kinds: kinds, audience: audience, values: values)))
    }

    // MARK: Widgets

    /// A person has put a widget on a device.
    public static func widgetPlaced(_ widget: WidgetCenter.Widget) -> WidgetEvent {
        WidgetEvent(.placed(widget))
    }

    /// A person has chosen other values for a widget's parameters.
    ///
    /// - Parameters:
    ///   - widget: its id.
    ///   - user: whose widget it is, so that the event stays in order behind the placement.
    ///   - configuration: all parameters with their values, not only the changed ones.
    public static func widgetConfigured(
        _ widget: String, of user: String, configuration: [String: WidgetCenter.Value]
    ) -> WidgetEvent {
        WidgetEvent(.configured(widget: widget, user: user, configuration: configuration))
    }

    /// A person has taken a widget away.
    ///
    /// - Parameters:
    ///   - widget: its id.
    ///   - user: whose widget it is, so that the event stays in order behind the placement.
    public static func widgetRemoved(_ widget: String, of user: String) -> WidgetEvent {
        WidgetEvent(.removed(widget: widget, user: user))
    }

    /// A widget was on a screen that a person looked at. How often it is decides how many reloads it may have.
    ///
    /// - Parameters:
    ///   - widget: its id.
    ///   - user: whose widget it is, so that the event stays in order behind the placement.
    public static func widgetViewed(_ widget: String, of user: String) -> WidgetEvent {
        WidgetEvent(.viewed(widget: widget, user: user))
    }

    /// A device has another language or time zone, or its time has jumped.
    ///
    /// - Parameters:
    ///   - device: its id.
    ///   - user: whose device it is, so that the event stays in order behind the placements.
    ///   - environment: as it is now.
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
