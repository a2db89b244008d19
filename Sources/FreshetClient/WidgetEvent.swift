// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetEvents
import WidgetModel

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// An event for ``WidgetCenter/publish(_:)-([WidgetEvent])``.
///
/// Arguments are checked when the event is published, by the rules of Freshet's decoder.
///
/// An event keeps its id and date. Published again after an error, it is the same event and does not override later
/// ones.
public struct WidgetEvent: Hashable, Sendable {
    /// The CloudEvents attribute `id`, unique among the events of the center's source: at most 1024 bytes without
    /// control characters. 128 random bits unless it is set.
    public var id = String.randomID()
    /// Time of the event. Events of one widget take effect in the order of their dates.
    public var date = Date()

    /// User whose id is the partition key; nil for the event's own key.
    private let user: String?
    /// The event without its app, or the error of an argument.
    private let event: Result<FreshetEvent, ModelError>

    private init(user: String? = nil, _ event: () throws(ModelError) -> FreshetEvent) {
        self.user = user
        do throws(ModelError) {
            self.event = .success(try event())
        } catch {
            self.event = .failure(error)
        }
    }

    /// The event with its envelope.
    ///
    /// - Throws: `invalidArgument` for what Freshet's decoder would refuse, with the place in the event's data.
    func outgoing(app: String, traceparent: String?) throws(WidgetCenterError) -> OutgoingEvent {
        do throws(ModelError) {
            if let problem = FreshetEvent.attributeProblem(id) { throw ModelError(message: problem, pointer: "/id") }
            return OutgoingEvent(
                try event.get().published(by: app), id: id, time: try date.timestamp,
                key: try user?.identifier("/user"), traceparent: traceparent)
        } catch {
            throw WidgetCenterError(.invalidArgument, error.description)
        }
    }
}

extension FreshetEvent {
    /// The event as one of an app.
    fileprivate func published(by app: String) -> FreshetEvent {
        switch change {
        case .reload(var request):
            request.app = app
            return FreshetEvent(request)
        case .widget(.placed(var placement)):
            placement.app = app
            return FreshetEvent(placement)
        case .person(.shortcuts(let device, var shortcuts)):
            for index in shortcuts.indices { shortcuts[index].content.app = app }
            return FreshetEvent(app: app, user: user, .person(.shortcuts(device: device, shortcuts)))
        case .widget, .view, .device, .person, .interaction:
            return FreshetEvent(app: app, user: user, change)
        }
    }
}

/// In each of these functions:
///
/// - `audience` names the widgets to reload, and `values` limits the reload to those whose configuration has these
///   values.
/// - `user` is the owner of the widget or device, so that the event stays in order behind the placement.
extension WidgetEvent {
    // MARK: Reloads

    /// New timelines of one kind are needed.
    public static func reloadTimelines(
        ofKind kind: String, for audience: WidgetCenter.Audience = .everyone,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reloadTimelines(ofKinds: [kind], for: audience, matching: values)
    }

    /// New timelines of several kinds, at most 1000, are needed.
    public static func reloadTimelines(
        ofKinds kinds: [String], for audience: WidgetCenter.Audience = .everyone,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reload(.push, kinds, audience, values)
    }

    /// New timelines of all kinds of the app are needed.
    public static func reloadAllTimelines(
        for audience: WidgetCenter.Audience = .everyone, matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reload(.push, nil, audience, values)
    }

    /// Data shown by widgets has changed in the app.
    ///
    /// - Parameters:
    ///   - state: whether the app is in the foreground.
    ///   - audience: people whose widgets show the data.
    ///   - kinds: kinds that show the data; nil for all.
    ///   - values: only widgets whose configuration has these values.
    public static func appChanged(
        _ state: WidgetCenter.AppState, for audience: WidgetCenter.Audience, kinds: [String]? = nil,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reload(state == .foreground ? .foreground : .background, kinds, audience, values)
    }

    /// An operator requests new timelines, without budget and spacing. For operators' tools only.
    ///
    /// - Parameters:
    ///   - audience: people whose widgets show the data.
    ///   - kinds: kinds to reload; nil for all.
    ///   - values: only widgets whose configuration has these values.
    public static func requestReload(
        for audience: WidgetCenter.Audience, kinds: [String]? = nil, matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reload(.operator, kinds, audience, values)
    }

    private static func reload(
        _ reason: ReloadReason, _ kinds: [String]?, _ audience: WidgetCenter.Audience,
        _ values: [String: WidgetCenter.Value]
    ) -> WidgetEvent {
        WidgetEvent { () throws(ModelError) in
            var request = ReloadRequest(app: "", audience: try audience.model(), kinds: .all, reason: reason)
            if let kinds { request.kinds = try scope(kinds) }
            // Every configuration contains the empty one.
            if !values.isEmpty { request.matching = try values.configuration("/matching") }
            return FreshetEvent(request)
        }
    }

    private static func scope(_ kinds: [String]) throws(ModelError) -> KindScope {
        guard kinds.count <= EventDecoder.maximumKinds else {
            throw ModelError(message: "more than \(EventDecoder.maximumKinds) kinds", pointer: "/kinds")
        }
        for (index, kind) in kinds.enumerated() { _ = try kind.identifier("/kinds/\(index)") }
        guard let scope = KindScope(names: kinds) else {
            throw ModelError(message: "expected at least one kind", pointer: "/kinds")
        }
        return scope
    }

    // MARK: Widgets

    /// A widget was placed on a device.
    public static func widgetPlaced(
        _ widget: String, of user: String, device: String, kind: String, family: WidgetCenter.Family,
        configuration: [String: WidgetCenter.Value] = [:], environment: WidgetCenter.Environment
    ) -> WidgetEvent {
        WidgetEvent { () throws(ModelError) in
            guard let family = WidgetFamily(name: family.rawValue) else {
                throw ModelError(message: "unknown family", pointer: "/family")
            }
            // A kind may not vary by what is wrong with the environment.
            return FreshetEvent(
                WidgetPlacement(
                    app: "", widget: try widget.identifier("/widget"), user: try user.identifier("/user"),
                    device: try device.identifier("/device"), kind: try kind.identifier("/kind"), family: family,
                    configuration: try configuration.configuration("/configuration"), environment: environment.model))
        }
    }

    /// A widget was configured.
    ///
    /// - Parameters:
    ///   - widget: id of the widget.
    ///   - user: id of the user.
    ///   - configuration: all parameters with their values, not only the changed ones.
    public static func widgetConfigured(
        _ widget: String, of user: String, configuration: [String: WidgetCenter.Value]
    ) -> WidgetEvent {
        WidgetEvent(user: user) { () throws(ModelError) in
            let configuration = try configuration.configuration("/configuration")
            return FreshetEvent(app: "", .widget(.configured(widget: try widget.identifier("/widget"), configuration)))
        }
    }

    /// A widget was removed.
    public static func widgetRemoved(_ widget: String, of user: String) -> WidgetEvent {
        WidgetEvent(user: user) { () throws(ModelError) in
            FreshetEvent(app: "", .widget(.removed(widget: try widget.identifier("/widget"))))
        }
    }

    /// A widget was viewed. Frequently viewed widgets get more reloads.
    public static func widgetViewed(_ widget: String, of user: String) -> WidgetEvent {
        WidgetEvent(user: user) { () throws(ModelError) in
            FreshetEvent(app: "", .view(widget: try widget.identifier("/widget")))
        }
    }

    /// A device's language, time zone or time has changed.
    ///
    /// - Parameters:
    ///   - device: id of the device.
    ///   - user: id of the user.
    ///   - environment: the device's new environment.
    ///   - significantTimeChange: midnight passed, or the clock or the time zone was set.
    public static func environmentChanged(
        ofDevice device: String, of user: String, to environment: WidgetCenter.Environment,
        significantTimeChange: Bool = false
    ) -> WidgetEvent {
        WidgetEvent(user: user) { () throws(ModelError) in
            let environment = environment.model
            if let problem = environment.problems.first {
                throw ModelError(message: problem.message, pointer: "/environment\(problem.pointer)")
            }
            let device = try device.identifier("/device")
            return FreshetEvent(
                app: "", .device(.environment(device: device, environment, isSignificant: significantTimeChange)))
        }
    }

    // MARK: Devices

    /// A device asks for pushes of Apple's push notification service when the user's widgets on it have changed.
    ///
    /// - Parameters:
    ///   - device: id of the device.
    ///   - user: id of the user.
    ///   - token: the app's token on the device.
    ///   - topic: the app's bundle id followed by `.push-type.widgets`.
    ///   - isSandbox: whether the token belongs to Apple's sandbox.
    public static func deviceRegistered(
        _ device: String, of user: String, token: [UInt8], topic: String, isSandbox: Bool = false
    ) -> WidgetEvent {
        registered(device, of: user) { () throws(ModelError) in
            guard (8...APNsAddress.maximumTokenBytes).contains(token.count) else {
                throw ModelError(
                    message: "expected 8 to \(APNsAddress.maximumTokenBytes) bytes",
                    pointer: "/channel/apns/token")
            }
            if let problem = APNsAddress.problem(ofTopic: topic) {
                throw ModelError(message: problem, pointer: "/channel/apns/topic")
            }
            return .apns(APNsAddress(token: token, environment: isSandbox ? .sandbox : .production, topic: topic))
        }
    }

    /// A device of an app whose backend is notified of changes by its webhook.
    public static func deviceRegistered(_ device: String, of user: String) -> WidgetEvent {
        registered(device, of: user) { .webhook }
    }

    private static func registered(
        _ device: String, of user: String, _ channel: () throws(ModelError) -> DeliveryChannel
    ) -> WidgetEvent {
        WidgetEvent { () throws(ModelError) in
            FreshetEvent(
                app: "", user: try user.identifier("/user"),
                .device(.registered(device: try device.identifier("/device"), try channel())))
        }
    }

    /// A device is no longer notified of changes.
    public static func deviceUnregistered(_ device: String, of user: String) -> WidgetEvent {
        WidgetEvent { () throws(ModelError) in
            FreshetEvent(
                app: "", user: try user.identifier("/user"),
                .device(.unregistered(device: try device.identifier("/device"))))
        }
    }

    // MARK: Stacks, shortcuts and interactions

    /// A person made, arranged or removed a stack.
    ///
    /// - Parameters:
    ///   - stack: name of the stack, unique on its device.
    ///   - user: id of the user.
    ///   - device: id of the device.
    ///   - widgets: ids from top to bottom, at most 32; without any, the stack was removed.
    ///   - smartRotate: whether widgets rotate to the top automatically.
    ///   - suggestions: whether widgets may be suggested in the stack.
    public static func stackChanged(
        _ stack: String, of user: String, device: String, widgets: [String], smartRotate: Bool = true,
        suggestions: Bool = true
    ) -> WidgetEvent {
        WidgetEvent { () throws(ModelError) in
            guard widgets.count <= StackArrangement.maximumWidgets else {
                throw ModelError(message: "more than \(StackArrangement.maximumWidgets) widgets", pointer: "/widgets")
            }
            for (index, widget) in widgets.enumerated() {
                _ = try widget.identifier("/widgets/\(index)")
                guard !widgets[..<index].contains(where: { Text.equal($0, widget) }) else {
                    throw ModelError(
                        message: "widget \(Text.quoted(widget)) is there twice", pointer: "/widgets/\(index)")
                }
            }
            let arrangement = StackArrangement(
                device: try device.identifier("/device"), name: try stack.identifier("/stack"), widgets: widgets,
                smartRotate: smartRotate, suggestions: suggestions)
            return FreshetEvent(app: "", user: try user.identifier("/user"), .person(.stack(arrangement)))
        }
    }

    /// A person turned a stack by hand; it is left so for a while.
    ///
    /// - Parameters:
    ///   - stack: name of the stack.
    ///   - user: id of the user.
    ///   - device: id of the device.
    ///   - widget: id of the widget that came to the top.
    public static func stackTurned(
        _ stack: String, of user: String, device: String, to widget: String
    ) -> WidgetEvent {
        WidgetEvent { () throws(ModelError) in
            let change = PersonChange.turned(
                device: try device.identifier("/device"), stack: try stack.identifier("/stack"),
                widget: try widget.identifier("/widget"))
            return FreshetEvent(app: "", user: try user.identifier("/user"), .person(change))
        }
    }

    /// The widgets that are relevant to a person: the whole set, which replaces the earlier one.
    ///
    /// - Parameters:
    ///   - shortcuts: the whole set, at most 20.
    ///   - user: id of the user.
    ///   - device: device on which they are relevant; nil for all.
    public static func relevantShortcuts(
        _ shortcuts: [WidgetCenter.RelevantShortcut], of user: String, device: String? = nil
    ) -> WidgetEvent {
        WidgetEvent { () throws(ModelError) in
            guard shortcuts.count <= EventDecoder.maximumShortcuts else {
                throw ModelError(message: "more than \(EventDecoder.maximumShortcuts) shortcuts", pointer: "/shortcuts")
            }
            var list: [RelevantShortcut] = []
            for (index, shortcut) in shortcuts.enumerated() { list.append(try shortcut.model("/shortcuts/\(index)")) }
            return FreshetEvent(
                app: "", user: try user.identifier("/user"),
                .person(.shortcuts(device: try device?.identifier("/device"), list)))
        }
    }

    /// A person viewed content in the app. Freshet learns when; nothing is shown for certain.
    ///
    /// - Parameters:
    ///   - kind: kind whose intent describes the content.
    ///   - configuration: values of the intent.
    ///   - user: id of the user.
    ///   - device: id of the device; nil if it is not known.
    ///   - timeZone: IANA name of the person's time zone; nil for that of the person's widgets.
    public static func interaction(
        with kind: String, configuration: [String: WidgetCenter.Value] = [:], of user: String, device: String? = nil,
        timeZone: String? = nil
    ) -> WidgetEvent {
        WidgetEvent { () throws(ModelError) in
            var interaction = DonatedInteraction(
                kind: try kind.identifier("/kind"), configuration: try configuration.configuration("/configuration"),
                device: try device?.identifier("/device"))
            // A time zone that cannot be used is left out, as by Freshet's decoder.
            let environment = timeZone.map { WidgetEnvironment(reportedLocale: "en", timeZone: $0) }
            if let environment, environment.problems.isEmpty { interaction.timeZone = environment.timeZone }
            return FreshetEvent(app: "", user: try user.identifier("/user"), .interaction(interaction))
        }
    }
}
