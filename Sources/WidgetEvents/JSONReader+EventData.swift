internal import WidgetModel

/// The data of each event type.
extension JSONReader {
    /// The most kinds that one request may name.
    static let maximumKinds = 1000

    mutating func event(of type: EventType) throws(JSONError) -> FreshetEvent {
        try expect(.object)
        let offset = position
        var fields = EventFields()
        var object = try beginObject()
        while let key = try nextKey(&object) {
            try fields.read(key, of: type, from: &self)
        }
        return try fields.event(of: type, reader: self, at: offset)
    }

    /// `{"user": id}`, `{"device": id}`, `{"widget": id}` or `{"everyone": true}`; exactly one of them.
    mutating func audience() throws(JSONError) -> Audience {
        try expect(.object)
        let offset = position
        var audience: Audience?
        var count = 0
        var object = try beginObject()
        while let key = try nextKey(&object) {
            if matches(key, "user") {
                audience = .user(try identifier())
            } else if matches(key, "device") {
                audience = .device(try identifier())
            } else if matches(key, "widget") {
                audience = .widget(try identifier())
            } else if matches(key, "everyone") {
                _ = try peek()
                let valueOffset = position
                guard try bool() else {
                    throw failure(.invalidValue, "expected true, found false", at: valueOffset)
                }
                audience = .everyone
            } else {
                try skip()
                continue
            }
            count += 1
        }
        guard count == 1, let audience else {
            throw failure(
                .invalidValue, "expected exactly one of user, device, widget, everyone, found \(count)", at: offset)
        }
        return audience
    }

    /// A list of kind names or `"all"`.
    mutating func kindScope() throws(JSONError) -> KindScope {
        let kind = try peek()
        let offset = position
        switch kind {
        case .string:
            let token = try stringToken()
            guard matches(token, "all") else {
                let found = Text.quoted(text(of: token))
                throw failure(.invalidValue, "expected a list of kinds or \"all\", found \(found)", at: offset)
            }
            return .all
        case .array:
            var names: [String] = []
            var array = try beginArray()
            while try nextElement(&array) {
                guard names.count < Self.maximumKinds else {
                    throw failure(.invalidValue, "more than \(Self.maximumKinds) kinds", at: offset)
                }
                names.append(try identifier())
            }
            guard let scope = KindScope(names: names) else {
                throw failure(.invalidValue, "expected at least one kind", at: offset)
            }
            return scope
        case .null, .bool, .number, .object:
            throw wrongType(expected: "an array or a string", found: kind)
        }
    }

    /// `"foreground"` or `"background"`.
    mutating func appState() throws(JSONError) -> ReloadReason {
        try expect(.string)
        let offset = position
        let token = try stringToken()
        if matches(token, "foreground") { return .foreground }
        if matches(token, "background") { return .background }
        let found = Text.quoted(text(of: token))
        throw failure(.invalidValue, "expected \"foreground\" or \"background\", found \(found)", at: offset)
    }
}

/// Members of the data read so far. Each type reads those that it knows and passes over the others.
struct EventFields {
    private var app: String?
    private var audience: Audience?
    private var kinds: KindScope?
    private var matching: WidgetConfiguration?
    private var state: ReloadReason?
    private var widget: String?
    private var user: String?
    private var device: String?
    private var kind: String?
    private var family: WidgetFamily?
    private var configuration: WidgetConfiguration?
    private var environment: WidgetEnvironment?
    private var significantTimeChange = false

    mutating func read(
        _ key: JSONStringToken, of type: EventType, from reader: inout JSONReader
    ) throws(JSONError) {
        if reader.matches(key, "app") {
            app = try reader.identifier()
            return
        }
        switch type {
        case .pushReceived, .appChanged: try readRequest(key, of: type, from: &reader)
        case .widgetPlaced: try readPlacement(key, from: &reader)
        case .widgetConfigured, .widgetRemoved, .widgetViewed: try readWidget(key, of: type, from: &reader)
        case .deviceEnvironmentChanged: try readDevice(key, from: &reader)
        }
    }

    private mutating func readRequest(
        _ key: JSONStringToken, of type: EventType, from reader: inout JSONReader
    ) throws(JSONError) {
        if reader.matches(key, "audience") {
            audience = try reader.audience()
        } else if reader.matches(key, "kinds") {
            kinds = try reader.kindScope()
        } else if reader.matches(key, "matching") {
            guard try !reader.takeNull() else { return }
            let predicate = try WidgetConfiguration(from: &reader)
            // Every configuration contains the empty one, so that such a request stays O(1).
            matching = predicate.isEmpty ? nil : predicate
        } else if type == .appChanged, reader.matches(key, "state") {
            state = try reader.appState()
        } else {
            try reader.skip()
        }
    }

    private mutating func readPlacement(_ key: JSONStringToken, from reader: inout JSONReader) throws(JSONError) {
        if reader.matches(key, "widget") {
            widget = try reader.identifier()
        } else if reader.matches(key, "user") {
            user = try reader.identifier()
        } else if reader.matches(key, "device") {
            device = try reader.identifier()
        } else if reader.matches(key, "kind") {
            kind = try reader.identifier()
        } else if reader.matches(key, "family") {
            family = try reader.family()
        } else if reader.matches(key, "configuration") {
            guard try !reader.takeNull() else { return }
            configuration = try WidgetConfiguration(from: &reader)
        } else if reader.matches(key, "environment") {
            environment = try reader.environment()
        } else {
            try reader.skip()
        }
    }

    private mutating func readWidget(
        _ key: JSONStringToken, of type: EventType, from reader: inout JSONReader
    ) throws(JSONError) {
        if reader.matches(key, "widget") {
            widget = try reader.identifier()
        } else if type == .widgetConfigured, reader.matches(key, "configuration") {
            configuration = try WidgetConfiguration(from: &reader)
        } else {
            try reader.skip()
        }
    }

    private mutating func readDevice(_ key: JSONStringToken, from reader: inout JSONReader) throws(JSONError) {
        if reader.matches(key, "device") {
            device = try reader.identifier()
        } else if reader.matches(key, "environment") {
            environment = try reader.environment()
        } else if reader.matches(key, "significantTimeChange") {
            guard try !reader.takeNull() else { return }
            significantTimeChange = try reader.bool()
        } else {
            try reader.skip()
        }
    }

    /// The event, if everything that its type requires is there.
    func event(of type: EventType, reader: JSONReader, at offset: Int) throws(JSONError) -> FreshetEvent {
        func require<Value>(_ value: Value?, _ member: String) throws(JSONError) -> Value {
            guard let value else { throw reader.missing(member, inObjectAt: offset) }
            return value
        }
        let app = try require(app, "app")
        switch type {
        case .pushReceived, .appChanged:
            let audience = try require(audience, "audience")
            let kinds = try require(kinds, "kinds")
            let reason = type == .pushReceived ? .push : try require(state, "state")
            let request = ReloadRequest(
                app: app, audience: audience, kinds: kinds, matching: matching, reason: reason)
            return type == .pushReceived ? .push(request) : .appChange(request)
        case .widgetPlaced:
            return .placed(
                WidgetPlacement(
                    app: app, widget: try require(widget, "widget"), user: try require(user, "user"),
                    device: try require(device, "device"), kind: try require(kind, "kind"),
                    family: try require(family, "family"), configuration: configuration ?? .empty,
                    environment: try require(environment, "environment")))
        case .widgetConfigured:
            return .configured(
                app: app, widget: try require(widget, "widget"),
                configuration: try require(configuration, "configuration"))
        case .widgetRemoved:
            return .removed(app: app, widget: try require(widget, "widget"))
        case .widgetViewed:
            return .viewed(app: app, widget: try require(widget, "widget"))
        case .deviceEnvironmentChanged:
            return .environmentChanged(
                app: app, device: try require(device, "device"),
                environment: try require(environment, "environment"),
                significantTimeChange: significantTimeChange)
        }
    }
}
