// SPDX-License-Identifier: Apache-2.0

import JSON
internal import WidgetModel

/// Reads the data of events.
///
/// Variables for required members have placeholder values, which are never returned: `members` throws if a member is
/// missing.
extension JSONReader {
    /// All errors of data that ``content(of:_:_:)`` refuses: at most one for each member in the order of the data, then
    /// those of missing members. Bytes behind the data are an error if there is no other.
    mutating func problems(of type: EventType) -> [JSONError] {
        var problems: [JSONError]? = []
        var names = RecurringNames()
        do throws(JSONError) {
            _ = try content(of: type, &problems, &names)
            try finish()
        } catch {
            if problems?.last != error { problems?.append(error) }
        }
        return problems ?? []
    }

    /// - Parameter problems: receives the errors of members; nil to throw the first one.
    mutating func content(
        of type: EventType, _ problems: inout [JSONError]?, _ names: inout RecurringNames
    ) throws(JSONError) -> EventContent {
        switch type {
        case .pushReceived, .appChanged, .reloadRequested: try reload(type, &problems, &names)
        case .widgetPlaced: .event(try placementEvent(&problems))
        case .widgetConfigured, .widgetRemoved, .widgetViewed: .event(try widgetEvent(type, &problems))
        case .deviceEnvironmentChanged, .deviceRegistered, .deviceUnregistered:
            .event(try deviceEvent(type, &problems))
        case .stackChanged, .stackTurned: .event(try stackEvent(type, &problems))
        case .shortcutsReplaced: .event(try shortcutsEvent(&problems))
        case .interactionDonated: .event(try interactionEvent(&problems))
        }
    }

    private mutating func reload(
        _ type: EventType, _ problems: inout [JSONError]?, _ names: inout RecurringNames
    ) throws(JSONError) -> EventContent {
        var (app, kinds) = (0, RecurringNames.allKinds)
        var (audience, id) = (CompactReload.Audience.everyone, JSONStringToken?.none)
        var matching: WidgetConfiguration?
        var reason = type == .reloadRequested ? ReloadReason.operator : .push
        try members(of: type, &problems) { (reader, member) throws(JSONError) in
            switch member {
            case .audience: (audience, id) = try reader.audience()
            case .kinds: kinds = try reader.kindScope(&names)
            case .matching:
                let predicate = try WidgetConfiguration(from: &reader)
                // Every configuration contains the empty one, so that such a request stays O(1).
                matching = predicate.isEmpty ? nil : predicate
            case .state: reason = try reader.appState()
            case .app: app = try names.app(&reader)
            default: break
            }
        }
        if matching == nil, id?.isPlain ?? true {
            return .reload(
                CompactReload(
                    app: app, kinds: kinds, audience: audience, reason: reason, id: id?.range ?? 0..<0))
        }
        return .event(
            FreshetEvent(
                ReloadRequest(
                    app: names.app(app), audience: audience.with(id.map { text(of: $0) } ?? ""),
                    kinds: names.kinds(kinds), matching: matching, reason: reason)))
    }

    private mutating func placementEvent(_ problems: inout [JSONError]?) throws(JSONError) -> FreshetEvent {
        var placement = WidgetPlacement(
            app: "", widget: "", user: "", device: "", kind: "", family: .systemSmall,
            environment: WidgetEnvironment(storedLocale: "", timeZone: ""))
        try members(of: .widgetPlaced, &problems) { (reader, member) throws(JSONError) in
            switch member {
            case .widget: placement.widget = try reader.identifier()
            case .user: placement.user = try reader.identifier()
            case .device: placement.device = try reader.identifier()
            case .kind: placement.kind = try reader.identifier()
            case .family: placement.family = try reader.family()
            case .configuration: placement.configuration = try WidgetConfiguration(from: &reader)
            case .environment: placement.environment = try reader.environment()
            case .app: placement.app = try reader.identifier()
            default: break
            }
        }
        return FreshetEvent(placement)
    }

    private mutating func widgetEvent(
        _ type: EventType, _ problems: inout [JSONError]?
    ) throws(JSONError) -> FreshetEvent {
        var (app, widget, configuration) = ("", "", WidgetConfiguration.empty)
        try members(of: type, &problems) { (reader, member) throws(JSONError) in
            switch member {
            case .widget: widget = try reader.identifier()
            case .configuration: configuration = try WidgetConfiguration(from: &reader)
            case .app: app = try reader.identifier()
            default: break
            }
        }
        let change: FreshetEvent.Change =
            switch type {
            case .widgetConfigured: .widget(.configured(widget: widget, configuration))
            case .widgetRemoved: .widget(.removed(widget: widget))
            default: .view(widget: widget)
            }
        return FreshetEvent(app: app, change)
    }

    private mutating func deviceEvent(
        _ type: EventType, _ problems: inout [JSONError]?
    ) throws(JSONError) -> FreshetEvent {
        var (app, device, channel, isSignificant) = ("", "", DeliveryChannel.webhook, false)
        var user: String?
        var environment = WidgetEnvironment(storedLocale: "", timeZone: "")
        try members(of: type, &problems) { (reader, member) throws(JSONError) in
            switch member {
            case .user: user = try reader.identifier()
            case .device: device = try reader.identifier()
            case .environment: environment = try reader.environment()
            case .significantTimeChange: isSignificant = try reader.bool()
            case .channel: channel = try reader.deliveryChannel()
            case .app: app = try reader.identifier()
            default: break
            }
        }
        let change: DeviceChange =
            switch type {
            case .deviceRegistered: .registered(device: device, channel)
            case .deviceUnregistered: .unregistered(device: device)
            default: .environment(device: device, environment, isSignificant: isSignificant)
            }
        return FreshetEvent(app: app, user: user, .device(change))
    }

    private mutating func stackEvent(
        _ type: EventType, _ problems: inout [JSONError]?
    ) throws(JSONError) -> FreshetEvent {
        var (app, user, widget) = ("", "", "")
        var stack = StackArrangement(device: "", name: "", widgets: [])
        try members(of: type, &problems) { (reader, member) throws(JSONError) in
            switch member {
            case .user: user = try reader.identifier()
            case .device: stack.device = try reader.identifier()
            case .stack: stack.name = try reader.identifier()
            case .widget: widget = try reader.identifier()
            case .widgets: stack.widgets = try reader.widgetsOfStack()
            case .smartRotate: stack.smartRotate = try reader.bool()
            case .suggestions: stack.suggestions = try reader.bool()
            case .app: app = try reader.identifier()
            default: break
            }
        }
        return FreshetEvent(
            app: app, user: user,
            .person(
                type == .stackChanged
                    ? .stack(stack) : .turned(device: stack.device, stack: stack.name, widget: widget)))
    }

    private mutating func shortcutsEvent(_ problems: inout [JSONError]?) throws(JSONError) -> FreshetEvent {
        var (app, user, shortcuts) = ("", "", [RelevantShortcut]())
        var device: String?
        try members(of: .shortcutsReplaced, &problems) { (reader, member) throws(JSONError) in
            switch member {
            case .user: user = try reader.identifier()
            case .device: device = try reader.identifier()
            case .shortcuts: shortcuts = try reader.shortcuts()
            case .app: app = try reader.identifier()
            default: break
            }
        }
        for index in shortcuts.indices { shortcuts[index].content.app = app }
        return FreshetEvent(app: app, user: user, .person(.shortcuts(device: device, shortcuts)))
    }

    private mutating func interactionEvent(_ problems: inout [JSONError]?) throws(JSONError) -> FreshetEvent {
        var (app, user, interaction) = ("", "", DonatedInteraction(kind: ""))
        try members(of: .interactionDonated, &problems) { (reader, member) throws(JSONError) in
            switch member {
            case .user: user = try reader.identifier()
            case .kind: interaction.kind = try reader.identifier()
            case .configuration: interaction.configuration = try WidgetConfiguration(from: &reader)
            case .device: interaction.device = try reader.identifier()
            case .timeZone: interaction.timeZone = try reader.timeZone()
            case .app: app = try reader.identifier()
            default: break
            }
        }
        return FreshetEvent(app: app, user: user, .interaction(interaction))
    }

    /// Reads the members that the type has, and skips others. Returns if none of the required ones is missing.
    ///
    /// - Parameters:
    ///   - problems: receives the errors of members, of which the last is thrown; nil to throw the first one.
    ///   - read: reads the value of a member that the type has.
    private mutating func members(
        of type: EventType, _ problems: inout [JSONError]?,
        _ read: (inout JSONReader, EventMember) throws(JSONError) -> Void
    ) throws(JSONError) {
        let members = type.members
        var missing = members.required
        let object = try beginObject()
        while let key = try nextKey() {
            guard let member = EventMember(key) else {
                try skip()
                continue
            }
            if members.required.contains(member) {
                missing.remove(member)
            } else if !members.optional.contains(member) {
                try skip()
                continue
            } else if try takeNull() {
                continue
            }
            if problems == nil {
                try read(&self, member)
                continue
            }
            let start = checkpoint
            do throws(JSONError) {
                try read(&self, member)
            } catch {
                problems?.append(error)
                rewind(to: start)
                try skip()
            }
        }
        if !missing.isEmpty {
            for member in EventMember.allCases where missing.contains(member) {
                let error = self.missing("\(member)", inObjectAt: object)
                if problems == nil { throw error }
                problems?.append(error)
            }
        }
        if let last = problems?.last { throw last }
    }
}

/// A member of an event's data. Errors of missing members come in the order of the cases.
private enum EventMember: UInt32, CaseIterable {
    case app, audience, kinds, state, matching, widget, user, device, kind, family, environment, configuration
    case significantTimeChange, channel, stack, widgets, smartRotate, suggestions, shortcuts, timeZone

    init?(_ key: JSONKey) {
        switch key {
        case "app": self = .app
        case "audience": self = .audience
        case "kinds": self = .kinds
        case "state": self = .state
        case "matching": self = .matching
        case "widget": self = .widget
        case "user": self = .user
        case "device": self = .device
        case "kind": self = .kind
        case "family": self = .family
        case "environment": self = .environment
        case "configuration": self = .configuration
        case "significantTimeChange": self = .significantTimeChange
        case "channel": self = .channel
        case "stack": self = .stack
        case "widgets": self = .widgets
        case "smartRotate": self = .smartRotate
        case "suggestions": self = .suggestions
        case "shortcuts": self = .shortcuts
        case "timeZone": self = .timeZone
        default: return nil
        }
    }
}

/// A set of members.
private struct EventMemberSet {
    private var bits: UInt32 = 0

    init(_ members: [EventMember]) {
        for member in members { bits |= 1 &<< member.rawValue }
    }

    var isEmpty: Bool { bits == 0 }
    func contains(_ member: EventMember) -> Bool { bits & (1 &<< member.rawValue) != 0 }
    mutating func remove(_ member: EventMember) { bits &= ~(1 &<< member.rawValue) }
}

/// The members of a type's data; optional ones may be null.
private struct EventMembers {
    let required: EventMemberSet
    let optional: EventMemberSet

    init(_ required: [EventMember], optional: [EventMember] = []) {
        (self.required, self.optional) = (EventMemberSet(required), EventMemberSet(optional))
    }
}

private let reloadMembers = EventMembers([.app, .audience, .kinds], optional: [.matching])
private let appChangeMembers = EventMembers([.app, .audience, .kinds, .state], optional: [.matching])
private let placementMembers = EventMembers(
    [.app, .widget, .user, .device, .kind, .family, .environment], optional: [.configuration])
private let configurationMembers = EventMembers([.app, .widget, .configuration])
private let widgetMembers = EventMembers([.app, .widget])
private let environmentMembers = EventMembers([.app, .device, .environment], optional: [.significantTimeChange])
private let registrationMembers = EventMembers([.app, .user, .device, .channel])
private let deviceMembers = EventMembers([.app, .user, .device])
private let stackMembers = EventMembers(
    [.app, .user, .device, .stack, .widgets], optional: [.smartRotate, .suggestions])
private let turnMembers = EventMembers([.app, .user, .device, .stack, .widget])
private let shortcutsMembers = EventMembers([.app, .user, .shortcuts], optional: [.device])
private let interactionMembers = EventMembers(
    [.app, .user, .kind], optional: [.configuration, .device, .timeZone])

extension EventType {
    fileprivate var members: EventMembers {
        switch self {
        case .pushReceived, .reloadRequested: reloadMembers
        case .appChanged: appChangeMembers
        case .widgetPlaced: placementMembers
        case .widgetConfigured: configurationMembers
        case .widgetRemoved, .widgetViewed: widgetMembers
        case .deviceEnvironmentChanged: environmentMembers
        case .deviceRegistered: registrationMembers
        case .deviceUnregistered: deviceMembers
        case .stackChanged: stackMembers
        case .stackTurned: turnMembers
        case .shortcutsReplaced: shortcutsMembers
        case .interactionDonated: interactionMembers
        }
    }
}

/// The parts of a reload request.
extension JSONReader {
    /// `{"user": id}`, `{"device": id}`, `{"widget": id}` or `{"everyone": true}`; exactly one of them.
    mutating func audience() throws(JSONError) -> (audience: CompactReload.Audience, id: JSONStringToken?) {
        var found: (audience: CompactReload.Audience, id: JSONStringToken?)?
        var count = 0
        let object = try beginObject()
        while let key = try nextKey() {
            switch key {
            case "user": found = (.user, try checkedIdentifier())
            case "device": found = (.device, try checkedIdentifier())
            case "widget": found = (.widget, try checkedIdentifier())
            case "everyone":
                _ = try peek()
                let valueOffset = position
                guard try bool() else { throw failure(.invalidValue, "expected true, found false", at: valueOffset) }
                found = (.everyone, nil)
            default:
                try skip()
                continue
            }
            count += 1
        }
        guard count == 1, let found else {
            throw failure(
                .invalidValue, "expected exactly one of user, device, widget, everyone, found \(count)",
                at: object)
        }
        return found
    }

    /// Reads an id without making it a text.
    private mutating func checkedIdentifier() throws(JSONError) -> JSONStringToken {
        let token = try stringToken()
        // Nearly every id is printable ASCII of a permitted length, which needs no further check.
        if token.isPlain, (1...Text.maximumIdentifierBytes).contains(token.range.count) { return token }
        _ = try identifier(token)
        return token
    }

    /// Reads a list of kind names or `"all"`, and returns its index among the names.
    fileprivate mutating func kindScope(_ names: inout RecurringNames) throws(JSONError) -> Int {
        let kind = try peek()
        let offset = position
        switch kind {
        case .string:
            return try string(#"a list of kinds or "all""#) {
                $0.elementsEqual("all".utf8) ? RecurringNames.allKinds : nil
            }
        case .array:
            try beginArray()
            guard try nextElement() else {
                throw failure(.invalidValue, "expected at least one kind", at: offset)
            }
            let first = try names.kind(&self)
            guard case .kinds(var kinds) = names.kinds(first), try nextElement() else { return first }
            repeat {
                guard kinds.count < EventDecoder.maximumKinds else {
                    throw failure(.invalidValue, "more than \(EventDecoder.maximumKinds) kinds", at: offset)
                }
                kinds.append(try identifier())
            } while try nextElement()
            return KindScope(names: kinds).map { names.add($0) } ?? first
        case .null, .bool, .number, .object:
            throw wrongType(expected: "an array or a string", found: kind)
        }
    }

    /// `"foreground"` or `"background"`.
    mutating func appState() throws(JSONError) -> ReloadReason {
        try string(#""foreground" or "background""#) {
            $0.elementsEqual("foreground".utf8) ? .foreground : $0.elementsEqual("background".utf8) ? .background : nil
        }
    }
}

/// The parts of events about a person's stacks and shortcuts.
extension JSONReader {
    /// Ids of a stack's widgets; each once.
    mutating func widgetsOfStack() throws(JSONError) -> [String] {
        var ids: [String] = []
        try list(atMost: StackArrangement.maximumWidgets, "widgets") { (reader) throws(JSONError) in
            _ = try reader.peek()
            let offset = reader.position
            let id = try reader.identifier()
            guard !ids.contains(where: { Text.equal($0, id) }) else {
                throw reader.failure(.invalidValue, "widget \(Text.quoted(id)) is there twice", at: offset)
            }
            ids.append(id)
        }
        return ids
    }

    /// Shortcuts; the name of their app is left empty.
    mutating func shortcuts() throws(JSONError) -> [RelevantShortcut] {
        var shortcuts: [RelevantShortcut] = []
        try list(atMost: EventDecoder.maximumShortcuts, "shortcuts") { (reader) throws(JSONError) in
            shortcuts.append(try reader.shortcut())
        }
        return shortcuts
    }

    private mutating func shortcut() throws(JSONError) -> RelevantShortcut {
        var shortcut = RelevantShortcut(content: WidgetContent(app: "", kind: ""))
        var kind: String?
        let object = try beginObject()
        while let key = try nextKey() {
            switch key {
            case "kind": kind = try identifier()
            case "configuration":
                if try !takeNull() { shortcut.content.configuration = try WidgetConfiguration(from: &self) }
            case "role":
                if try !takeNull() { shortcut.role = try role() }
            case "ranges":
                if try !takeNull() { shortcut.ranges = try ranges() }
            default: try skip()
            }
        }
        shortcut.content.kind = try require(kind, "kind", ofObjectAt: object)
        return shortcut
    }

    private mutating func role() throws(JSONError) -> String {
        _ = try peek()
        let offset = position
        let text = try identifier()
        guard text.utf8.count <= EventDecoder.maximumRoleBytes else {
            throw failure(.invalidValue, "must be at most \(EventDecoder.maximumRoleBytes) bytes", at: offset)
        }
        return text
    }

    private mutating func ranges() throws(JSONError) -> [Range<Timestamp>] {
        var ranges: [Range<Timestamp>] = []
        try list(atMost: EventDecoder.maximumRanges, "ranges") { (reader) throws(JSONError) in
            var from: Timestamp?
            var until: Timestamp?
            let object = try reader.beginObject()
            while let key = try reader.nextKey() {
                switch key {
                case "from": from = try reader.timestamp()
                case "until": until = try reader.timestamp()
                default: try reader.skip()
                }
            }
            let begin = try reader.require(from, "from", ofObjectAt: object)
            let end = try reader.require(until, "until", ofObjectAt: object)
            guard begin < end else {
                throw reader.failure(.invalidValue, "a range must end after it begins", at: object)
            }
            ranges.append(begin..<end)
        }
        return ranges.sorted { $0.lowerBound < $1.lowerBound }
    }

    /// A time zone; nil for one that cannot be used.
    mutating func timeZone() throws(JSONError) -> String? {
        let environment = WidgetEnvironment(reportedLocale: "en", timeZone: try string())
        return environment.problems.isEmpty ? environment.timeZone : nil
    }

    /// An array with a limit.
    private mutating func list(
        atMost limit: Int, _ what: String, _ read: (inout JSONReader) throws(JSONError) -> Void
    ) throws(JSONError) {
        _ = try peek()
        let offset = position
        var count = 0
        try beginArray()
        while try nextElement() {
            count += 1
            guard count <= limit else { throw failure(.invalidValue, "more than \(limit) \(what)", at: offset) }
            try read(&self)
        }
    }
}

/// The parts of events about devices.
extension JSONReader {
    /// `{"apns": {"token", "environment", "topic"}}` or `{"webhook": true}`; exactly one of them.
    mutating func deliveryChannel() throws(JSONError) -> DeliveryChannel {
        var channel: DeliveryChannel?
        var count = 0
        let object = try beginObject()
        while let key = try nextKey() {
            switch key {
            case "apns": channel = .apns(try apnsAddress())
            case "webhook":
                _ = try peek()
                let offset = position
                guard try bool() else { throw failure(.invalidValue, "expected true, found false", at: offset) }
                channel = .webhook
            default:
                try skip()
                continue
            }
            count += 1
        }
        guard count == 1, let channel else {
            throw failure(.invalidValue, "expected exactly one of apns, webhook, found \(count)", at: object)
        }
        return channel
    }

    private mutating func apnsAddress() throws(JSONError) -> APNsAddress {
        var token: [UInt8]?
        var environment = APNsAddress.Environment.production
        var topic: String?
        let object = try beginObject()
        while let key = try nextKey() {
            switch key {
            case "token": token = try apnsToken()
            case "environment":
                if try !takeNull() {
                    environment = try string("production or sandbox") {
                        APNsAddress.Environment(rawValue: String(decoding: $0, as: UTF8.self))
                    }
                }
            case "topic":
                _ = try peek()
                let offset = position
                let text = try string()
                if let problem = APNsAddress.problem(ofTopic: text) {
                    throw failure(.invalidValue, problem, at: offset)
                }
                topic = text
            default: try skip()
            }
        }
        return APNsAddress(
            token: try require(token, "token", ofObjectAt: object), environment: environment,
            topic: try require(topic, "topic", ofObjectAt: object))
    }

    /// A token in hexadecimal digits. Errors do not repeat it.
    private mutating func apnsToken() throws(JSONError) -> [UInt8] {
        _ = try peek()
        let offset = position
        let text = try string()
        guard let token = [UInt8](hexadecimal: text), (8...APNsAddress.maximumTokenBytes).contains(token.count) else {
            throw failure(
                .invalidValue, "expected 16 to \(2 * APNsAddress.maximumTokenBytes) hexadecimal digits", at: offset)
        }
        return token
    }
}
