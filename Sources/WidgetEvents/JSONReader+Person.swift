internal import WidgetModel

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
        var object = try beginObject()
        while let key = try nextKey(&object) {
            switch text(of: key) {
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
        shortcut.content.kind = try require(kind, "kind", of: object)
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
            var object = try reader.beginObject()
            while let key = try reader.nextKey(&object) {
                if reader.matches(key, "from") {
                    from = try reader.timestamp()
                } else if reader.matches(key, "until") {
                    until = try reader.timestamp()
                } else {
                    try reader.skip()
                }
            }
            let begin = try reader.require(from, "from", of: object)
            let end = try reader.require(until, "until", of: object)
            guard begin < end else {
                throw reader.failure(.invalidValue, "a range must end after it begins", at: object.start)
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
        var array = try beginArray()
        while try nextElement(&array) {
            count += 1
            guard count <= limit else { throw failure(.invalidValue, "more than \(limit) \(what)", at: offset) }
            try read(&self)
        }
    }
}

extension RelevantShortcut {
    /// As an event says it, without the app.
    var json: JSONValue {
        var object = JSONObject()
        object["kind"] = .string(content.kind)
        if content.configuration != .empty { object["configuration"] = content.configuration.value }
        if !role.isEmpty { object["role"] = .string(role) }
        if !ranges.isEmpty {
            object["ranges"] = .array(ranges.map { ["from": .time($0.lowerBound), "until": .time($0.upperBound)] })
        }
        return .object(object)
    }
}
