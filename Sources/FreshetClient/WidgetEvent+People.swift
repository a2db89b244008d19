import WidgetEvents
import WidgetModel

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension WidgetCenter {
    /// Widgets on top of each other, as the person arranged them.
    public struct Stack: Hashable, Sendable {
        /// Unique on its device.
        public var name: String
        public var user: String
        public var device: String
        /// Ids from top to bottom; at most 32. Without any, the stack was removed.
        public var widgets: [String]
        /// Whether widgets rotate to the top by themselves.
        public var smartRotate: Bool
        /// Whether widgets may be suggested in the stack.
        public var suggestions: Bool

        public init(
            name: String, user: String, device: String, widgets: [String], smartRotate: Bool = true,
            suggestions: Bool = true
        ) {
            self.name = name
            self.user = user
            self.device = device
            self.widgets = widgets
            self.smartRotate = smartRotate
            self.suggestions = suggestions
        }
    }

    /// A widget that is relevant to a person.
    public struct RelevantShortcut: Hashable, Sendable {
        public var kind: String
        public var configuration: [String: Value]
        /// Why it is relevant, in a word of the app's; at most 64 bytes.
        public var role: String?
        /// When it is relevant; at most 24. Empty: when the person usually looks.
        public var ranges: [Range<Date>]

        public init(
            kind: String, configuration: [String: Value] = [:], role: String? = nil, ranges: [Range<Date>] = []
        ) {
            self.kind = kind
            self.configuration = configuration
            self.role = role
            self.ranges = ranges
        }
    }

    /// Publishes the whole set of relevant shortcuts; see ``WidgetEvent/relevantShortcuts(_:of:device:)``.
    @discardableResult
    public func setRelevantShortcuts(
        _ shortcuts: [RelevantShortcut], of user: String, device: String? = nil
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(.relevantShortcuts(shortcuts, of: user, device: device))
    }

    /// Publishes that a person viewed content; see ``WidgetEvent/interaction(with:configuration:of:device:timeZone:)``.
    @discardableResult
    public func donateInteraction(
        with kind: String, configuration: [String: Value] = [:], of user: String, device: String? = nil,
        timeZone: String? = nil
    ) async throws(WidgetCenterError) -> PublishedEvent {
        try await publish(
            .interaction(with: kind, configuration: configuration, of: user, device: device, timeZone: timeZone))
    }
}

extension WidgetEvent {
    // MARK: Devices

    /// A device is to be told, by Apple's push notification service, when the user's widgets on it have changed.
    ///
    /// - Parameters:
    ///   - token: the app's token on the device.
    ///   - topic: the app's bundle id followed by `.push-type.widgets`.
    ///   - isSandbox: whether the token is one of Apple's sandbox.
    public static func deviceRegistered(
        _ device: String, of user: String, token: [UInt8], topic: String, isSandbox: Bool = false
    ) -> WidgetEvent {
        let address = APNsAddress(token: token, environment: isSandbox ? .sandbox : .production, topic: topic)
        return WidgetEvent(.person(.registered(device: device, user: user, .apns(address))))
    }

    /// A device whose app's backend is to be told by its webhook.
    public static func deviceRegistered(_ device: String, of user: String) -> WidgetEvent {
        WidgetEvent(.person(.registered(device: device, user: user, .webhook)))
    }

    /// A device is told of changes no longer.
    public static func deviceUnregistered(_ device: String, of user: String) -> WidgetEvent {
        WidgetEvent(.person(.registered(device: device, user: user, nil)))
    }

    // MARK: Stacks, shortcuts and interactions

    /// A person made, arranged or removed a stack.
    public static func stackChanged(_ stack: WidgetCenter.Stack) -> WidgetEvent {
        WidgetEvent(.person(.stack(stack)))
    }

    /// A person turned a stack by hand; it is left so for a while.
    ///
    /// - Parameters:
    ///   - stack: name of the stack.
    ///   - widget: id of the widget that came to the top.
    public static func stackTurned(
        _ stack: String, of user: String, device: String, to widget: String
    ) -> WidgetEvent {
        WidgetEvent(.person(.turned(stack: stack, user: user, device: device, widget: widget)))
    }

    /// The widgets that are relevant to a person: the whole set, which replaces the earlier one.
    ///
    /// - Parameter device: nil: on all devices.
    public static func relevantShortcuts(
        _ shortcuts: [WidgetCenter.RelevantShortcut], of user: String, device: String? = nil
    ) -> WidgetEvent {
        WidgetEvent(.person(.shortcuts(shortcuts, user: user, device: device)))
    }

    /// A person viewed content in the app. Freshet learns when; nothing is shown for certain.
    ///
    /// - Parameters:
    ///   - kind: kind whose intent describes the content.
    ///   - configuration: values of the intent.
    ///   - timeZone: IANA name of the zone in which the person was; nil: that of the person's widgets.
    public static func interaction(
        with kind: String, configuration: [String: WidgetCenter.Value] = [:], of user: String, device: String? = nil,
        timeZone: String? = nil
    ) -> WidgetEvent {
        WidgetEvent(
            .person(
                .viewed(
                    kind: kind, configuration: configuration, user: user, device: device, timeZone: timeZone)))
    }
}

/// Content of an event about a person.
enum PersonContent: Hashable, Sendable {
    case stack(WidgetCenter.Stack)
    case turned(stack: String, user: String, device: String, widget: String)
    /// Nil: the device is registered no longer.
    case registered(device: String, user: String, DeliveryChannel?)
    case shortcuts([WidgetCenter.RelevantShortcut], user: String, device: String?)
    case viewed(
        kind: String, configuration: [String: WidgetCenter.Value], user: String, device: String?, timeZone: String?)

    /// The event, if Freshet's decoder accepts it.
    func event(app: String) throws(WidgetCenterError) -> FreshetEvent {
        let event = try unchecked(app: app)
        do throws(EventError) {
            _ = try EventDecoder().decode(data: EventEncoder.data(of: event), of: event.type)
        } catch {
            throw WidgetCenterError(.invalidArgument, "\(error.pointer ?? ""): \(error.message)")
        }
        return event
    }

    private func unchecked(app: String) throws(WidgetCenterError) -> FreshetEvent {
        switch self {
        case .stack(let stack):
            return .stackChanged(
                app: app, user: stack.user,
                StackArrangement(
                    device: stack.device, name: stack.name, widgets: stack.widgets, smartRotate: stack.smartRotate,
                    suggestions: stack.suggestions))
        case .turned(let stack, let user, let device, let widget):
            return .stackTurned(app: app, user: user, device: device, stack: stack, widget: widget)
        case .registered(let device, let user, let channel):
            guard let channel else { return .deviceUnregistered(app: app, user: user, device: device) }
            return .deviceRegistered(
                app: app, DeviceRegistration(user: user, device: device, channel: channel))
        case .shortcuts(let shortcuts, let user, let device):
            var models: [RelevantShortcut] = []
            for shortcut in shortcuts {
                let values = try shortcut.configuration.configuration("shortcuts.configuration")
                var ranges: [Range<Timestamp>] = []
                for range in shortcut.ranges {
                    let (from, until) = (try WidgetEvent.time(range.lowerBound), try WidgetEvent.time(range.upperBound))
                    ranges.append(from..<until)
                }
                models.append(
                    RelevantShortcut(
                        content: WidgetContent(app: app, kind: shortcut.kind, configuration: values),
                        role: shortcut.role ?? "", ranges: ranges.sorted { $0.lowerBound < $1.lowerBound }))
            }
            return .shortcutsReplaced(app: app, user: user, device: device, models)
        case .viewed(let kind, let configuration, let user, let device, let timeZone):
            return .interactionDonated(
                app: app, user: user,
                DonatedInteraction(
                    kind: kind, configuration: try configuration.configuration("configuration"), device: device,
                    timeZone: timeZone))
        }
    }
}
