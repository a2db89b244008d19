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
/// Arguments are checked when the event is published, by the rules of Freshet's own decoder.
///
/// An event keeps its id and date. Published again after an error, it is the same event and does not override later
/// ones.
public struct WidgetEvent: Hashable, Sendable {
    /// The CloudEvents attribute `id`, unique among the events of the center's source: at most 1024 bytes without
    /// control characters. 128 random bits unless it is set.
    public var id = RandomID.make()
    /// Time of the event. Events of one widget take effect in the order of their dates.
    public var date = Date()

    private let type: EventType
    /// User whose id is the partition key; nil for the event's own key.
    private let user: String?
    /// Data of the event without its app, or the error of a value that JSON cannot express.
    private let data: Result<JSONObject, ModelError>

    private init(_ type: EventType, user: String? = nil, _ data: () throws(ModelError) -> JSONObject) {
        self.type = type
        self.user = user
        do throws(ModelError) {
            self.data = .success(try data())
        } catch {
            self.data = .failure(error)
        }
    }

    /// The event as Freshet's decoder reads it, with its envelope.
    ///
    /// - Throws: `invalidArgument` for what the decoder refuses, with the place in the event's data.
    func outgoing(app: String, traceparent: String?) throws(WidgetCenterError) -> OutgoingEvent {
        do throws(ModelError) {
            if let problem = EventEncoder.attributeProblem(id) { throw ModelError(message: problem, pointer: "/id") }
            if let user, let problem = Text.identifierProblem(user) {
                throw ModelError(message: problem, pointer: "/user")
            }
            var data = try data.get()
            data["app"] = .string(app)
            return OutgoingEvent(
                try Self.event(type, data), id: id, time: try date.timestamp, key: user, traceparent: traceparent)
        } catch {
            throw WidgetCenterError(.invalidArgument, error.description)
        }
    }

    private static func event(_ type: EventType, _ data: JSONObject) throws(ModelError) -> FreshetEvent {
        let event: FreshetEvent
        do throws(EventError) {
            event = try EventDecoder().decode(data: JSONValue.object(data).encoded, of: type)
        } catch {
            throw ModelError(message: error.message, pointer: error.pointer ?? "")
        }
        // A kind may not vary by what is wrong with a placement's environment; a device's has no other use.
        if case .device(.environment(_, let environment, _)) = event.change, let problem = environment.problems.first {
            throw ModelError(message: problem.message, pointer: "/environment\(problem.pointer)")
        }
        return event
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
        reload(.pushReceived, kinds, audience, values)
    }

    /// New timelines of all kinds of the app are needed.
    public static func reloadAllTimelines(
        for audience: WidgetCenter.Audience = .everyone, matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reload(.pushReceived, nil, audience, values)
    }

    /// Data shown by widgets has changed in the app.
    ///
    /// - Parameter kinds: kinds that show the data; nil for all.
    public static func appChanged(
        _ state: WidgetCenter.AppState, for audience: WidgetCenter.Audience, kinds: [String]? = nil,
        matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reload(.appChanged, kinds, audience, values, state: state == .foreground ? "foreground" : "background")
    }

    /// An operator requests new timelines, without budget and spacing. For operators' tools only.
    ///
    /// - Parameter kinds: kinds to reload; nil for all.
    public static func requestReload(
        for audience: WidgetCenter.Audience, kinds: [String]? = nil, matching values: [String: WidgetCenter.Value] = [:]
    ) -> WidgetEvent {
        reload(.reloadRequested, kinds, audience, values)
    }

    private static func reload(
        _ type: EventType, _ kinds: [String]?, _ audience: WidgetCenter.Audience,
        _ values: [String: WidgetCenter.Value], state: JSONValue? = nil
    ) -> WidgetEvent {
        WidgetEvent(type) { () throws(ModelError) in
            var data: JSONObject = ["audience": audience.json, "kinds": kinds.map { .texts($0) } ?? "all"]
            if !values.isEmpty { data["matching"] = try values.json("/matching") }
            data["state"] = state
            return data
        }
    }

    // MARK: Widgets

    /// A widget was placed on a device.
    public static func widgetPlaced(
        _ widget: String, of user: String, device: String, kind: String, family: WidgetCenter.Family,
        configuration: [String: WidgetCenter.Value] = [:], environment: WidgetCenter.Environment
    ) -> WidgetEvent {
        WidgetEvent(.widgetPlaced) { () throws(ModelError) in
            [
                "widget": .string(widget), "user": .string(user), "device": .string(device), "kind": .string(kind),
                "family": .string(family.rawValue), "configuration": try configuration.json("/configuration"),
                "environment": environment.json,
            ]
        }
    }

    /// A widget was configured.
    ///
    /// - Parameter configuration: all parameters with their values, not only the changed ones.
    public static func widgetConfigured(
        _ widget: String, of user: String, configuration: [String: WidgetCenter.Value]
    ) -> WidgetEvent {
        WidgetEvent(.widgetConfigured, user: user) { () throws(ModelError) in
            ["widget": .string(widget), "configuration": try configuration.json("/configuration")]
        }
    }

    /// A widget was removed.
    public static func widgetRemoved(_ widget: String, of user: String) -> WidgetEvent {
        WidgetEvent(.widgetRemoved, user: user) { ["widget": .string(widget)] }
    }

    /// A widget was viewed. Frequently viewed widgets get more reloads.
    public static func widgetViewed(_ widget: String, of user: String) -> WidgetEvent {
        WidgetEvent(.widgetViewed, user: user) { ["widget": .string(widget)] }
    }

    /// A device's language, time zone or time has changed.
    ///
    /// - Parameter significantTimeChange: midnight passed, or the clock or the time zone was set.
    public static func environmentChanged(
        ofDevice device: String, of user: String, to environment: WidgetCenter.Environment,
        significantTimeChange: Bool = false
    ) -> WidgetEvent {
        WidgetEvent(.deviceEnvironmentChanged, user: user) {
            [
                "device": .string(device), "environment": environment.json,
                "significantTimeChange": .bool(significantTimeChange),
            ]
        }
    }

    // MARK: Devices

    /// A device asks for pushes of Apple's push notification service when the user's widgets on it have changed.
    ///
    /// - Parameters:
    ///   - token: the app's token on the device.
    ///   - topic: the app's bundle id followed by `.push-type.widgets`.
    ///   - isSandbox: whether the token belongs to Apple's sandbox.
    public static func deviceRegistered(
        _ device: String, of user: String, token: [UInt8], topic: String, isSandbox: Bool = false
    ) -> WidgetEvent {
        let address: JSONValue = [
            "token": .string(Hex.text(token)), "topic": .string(topic),
            "environment": isSandbox ? "sandbox" : "production",
        ]
        return registered(device, user, ["apns": address])
    }

    /// A device of an app whose backend is notified of changes by its webhook.
    public static func deviceRegistered(_ device: String, of user: String) -> WidgetEvent {
        registered(device, user, ["webhook": true])
    }

    private static func registered(_ device: String, _ user: String, _ channel: JSONValue) -> WidgetEvent {
        WidgetEvent(.deviceRegistered) { ["user": .string(user), "device": .string(device), "channel": channel] }
    }

    /// A device is no longer notified of changes.
    public static func deviceUnregistered(_ device: String, of user: String) -> WidgetEvent {
        WidgetEvent(.deviceUnregistered) { ["user": .string(user), "device": .string(device)] }
    }

    // MARK: Stacks, shortcuts and interactions

    /// A person made, arranged or removed a stack.
    ///
    /// - Parameters:
    ///   - stack: name of the stack, unique on its device.
    ///   - widgets: ids from top to bottom, at most 32; without any, the stack was removed.
    ///   - smartRotate: whether widgets rotate to the top automatically.
    ///   - suggestions: whether widgets may be suggested in the stack.
    public static func stackChanged(
        _ stack: String, of user: String, device: String, widgets: [String], smartRotate: Bool = true,
        suggestions: Bool = true
    ) -> WidgetEvent {
        WidgetEvent(.stackChanged) {
            [
                "user": .string(user), "device": .string(device), "stack": .string(stack), "widgets": .texts(widgets),
                "smartRotate": .bool(smartRotate), "suggestions": .bool(suggestions),
            ]
        }
    }

    /// A person turned a stack by hand; it is left so for a while.
    ///
    /// - Parameters:
    ///   - stack: name of the stack.
    ///   - widget: id of the widget that came to the top.
    public static func stackTurned(
        _ stack: String, of user: String, device: String, to widget: String
    ) -> WidgetEvent {
        WidgetEvent(.stackTurned) {
            [
                "user": .string(user), "device": .string(device), "stack": .string(stack), "widget": .string(widget),
            ]
        }
    }

    /// The widgets that are relevant to a person: the whole set, which replaces the earlier one.
    ///
    /// - Parameter device: device on which they are relevant; nil for all.
    public static func relevantShortcuts(
        _ shortcuts: [WidgetCenter.RelevantShortcut], of user: String, device: String? = nil
    ) -> WidgetEvent {
        WidgetEvent(.shortcutsReplaced) { () throws(ModelError) in
            var list: [JSONValue] = []
            for shortcut in shortcuts { list.append(try shortcut.json()) }
            return ["user": .string(user), "device": .text(device), "shortcuts": .array(list)]
        }
    }

    /// A person viewed content in the app. Freshet learns when; nothing is shown for certain.
    ///
    /// - Parameters:
    ///   - kind: kind whose intent describes the content.
    ///   - configuration: values of the intent.
    ///   - timeZone: IANA name of the person's time zone; nil for that of the person's widgets.
    public static func interaction(
        with kind: String, configuration: [String: WidgetCenter.Value] = [:], of user: String, device: String? = nil,
        timeZone: String? = nil
    ) -> WidgetEvent {
        WidgetEvent(.interactionDonated) { () throws(ModelError) in
            [
                "user": .string(user), "device": .text(device), "kind": .string(kind), "timeZone": .text(timeZone),
                "configuration": try configuration.json("/configuration"),
            ]
        }
    }
}
