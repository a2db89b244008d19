import JSON
internal import WidgetModel

/// The parts of a reload request.
extension JSONReader {
    /// The most kinds that one request may name.
    static let maximumKinds = 1000

    /// `{"user": id}`, `{"device": id}`, `{"widget": id}` or `{"everyone": true}`; exactly one of them.
    mutating func audience() throws(JSONError) -> Audience {
        var audience: Audience?
        var count = 0
        let object = try beginObject()
        while let key = try nextKey() {
            switch key {
            case "user": audience = .user(try identifier())
            case "device": audience = .device(try identifier())
            case "widget": audience = .widget(try identifier())
            case "everyone":
                _ = try peek()
                let valueOffset = position
                guard try bool() else { throw failure(.invalidValue, "expected true, found false", at: valueOffset) }
                audience = .everyone
            default:
                try skip()
                continue
            }
            count += 1
        }
        guard count == 1, let audience else {
            throw failure(
                .invalidValue, "expected exactly one of user, device, widget, everyone, found \(count)",
                at: object)
        }
        return audience
    }

    /// A list of kind names or `"all"`.
    mutating func kindScope() throws(JSONError) -> KindScope {
        let kind = try peek()
        let offset = position
        switch kind {
        case .string:
            return try string(#"a list of kinds or "all""#) { $0.elementsEqual("all".utf8) ? .all : nil }
        case .array:
            var names: [String] = []
            try beginArray()
            while try nextElement() {
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
        try string(#""foreground" or "background""#) {
            $0.elementsEqual("foreground".utf8) ? .foreground : $0.elementsEqual("background".utf8) ? .background : nil
        }
    }
}

/// The parts of events about a person's stacks and shortcuts.
extension JSONReader {
    /// Most shortcuts of a set, and ranges of a shortcut.
    static let maximumShortcuts = 20
    static let maximumRanges = 24
    /// Longest role, in bytes.
    static let maximumRoleBytes = 64

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
        try list(atMost: Self.maximumShortcuts, "shortcuts") { (reader) throws(JSONError) in
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
        guard text.utf8.count <= Self.maximumRoleBytes else {
            throw failure(.invalidValue, "must be at most \(Self.maximumRoleBytes) bytes", at: offset)
        }
        return text
    }

    private mutating func ranges() throws(JSONError) -> [Range<Timestamp>] {
        var ranges: [Range<Timestamp>] = []
        try list(atMost: Self.maximumRanges, "ranges") { (reader) throws(JSONError) in
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
        guard let token = Hex.bytes(text), (8...APNsAddress.maximumTokenBytes).contains(token.count) else {
            throw failure(
                .invalidValue, "expected 16 to \(2 * APNsAddress.maximumTokenBytes) hexadecimal digits", at: offset)
        }
        return token
    }
}
