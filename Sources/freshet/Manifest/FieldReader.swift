import WidgetModel

/// Reads the fields of one document: every check that fails leaves a problem and answers nil, so that one pass finds
/// them all.
struct FieldReader {
    let file: String
    private(set) var problems: [FileProblem] = []

    init(file: String) {
        self.file = file
    }

    /// The members of a mapping that is being read, by key.
    struct Fields {
        let path: String
        let mark: SourceMark
        fileprivate let members: [String: LocatedValue.Member]

        /// Where the field `key` stands, or would stand.
        func path(of key: String) -> String {
            path.isEmpty ? key : "\(path).\(key)"
        }

        /// The value of `key`, unless it is absent or null.
        subscript(key: String) -> LocatedValue? {
            members[key].flatMap { $0.value.isNull ? nil : $0.value }
        }

        func mark(of key: String) -> SourceMark {
            members[key]?.value.mark ?? mark
        }

        /// Whether the key is there, whatever its value.
        func contains(_ key: String) -> Bool {
            members[key] != nil
        }
    }

    mutating func report(_ mark: SourceMark, _ path: String, _ message: String, expected: String? = nil) {
        problems.append(FileProblem(file: file, mark: mark, path: path, message: message, expectation: expected))
    }

    /// Opens `value` as a mapping, and reports the keys that are not among `known`.
    mutating func fields(of value: LocatedValue, path: String, known: [String]) -> Fields? {
        guard case .mapping(let list) = value.content else {
            report(
                value.mark, path, "\(value.excerpt) where a mapping belongs",
                expected: "a mapping with \(known.joined(separator: ", "))")
            return nil
        }
        var members: [String: LocatedValue.Member] = [:]
        for member in list {
            members[member.key] = member
            guard !known.contains(member.key) else { continue }
            let expected =
                if let meant = Suggestion.closest(to: member.key, among: known) {
                    "\"\(meant)\" (did you mean it?)"
                } else {
                    known.joined(separator: ", ")
                }
            report(member.keyMark, path, "unknown key \(Text.quoted(member.key))", expected: expected)
        }
        return Fields(path: path, mark: value.mark, members: members)
    }

    /// Reports a required field that is absent.
    mutating func require(_ key: String, in fields: Fields, expected: String) -> LocatedValue? {
        if let value = fields[key] { return value }
        report(
            fields.mark(of: key), fields.path(of: key), fields.contains(key) ? "has no value" : "is missing",
            expected: expected)
        return nil
    }

    mutating func bool(_ key: String, in fields: Fields) -> Bool? {
        guard let value = fields[key] else { return nil }
        guard case .bool(let flag) = value.content else {
            wrongType(value, fields.path(of: key), expected: "true or false")
            return nil
        }
        return flag
    }

    mutating func integer(_ key: String, in fields: Fields, range: ClosedRange<Int>) -> Int? {
        guard let value = fields[key] else { return nil }
        let expected = "\(range.lowerBound) to \(range.upperBound)"
        guard case .number(let text) = value.content else {
            wrongType(value, fields.path(of: key), expected: "a whole number, \(expected)")
            return nil
        }
        guard let number = Int(text) else {
            report(
                value.mark, fields.path(of: key), "\(value.excerpt) is not a whole number of this range",
                expected: expected)
            return nil
        }
        guard range.contains(number) else {
            report(value.mark, fields.path(of: key), "\(number) is out of range", expected: expected)
            return nil
        }
        return number
    }

    mutating func duration(_ key: String, in fields: Fields, range: ClosedRange<Duration>) -> Duration? {
        guard let value = fields[key] else { return nil }
        let expected = "\(DurationText.write(range.lowerBound)) to \(DurationText.write(range.upperBound))"
        // A bare number is refused, as its unit would be a guess; zero needs none.
        let text: String
        switch value.content {
        case .string(let written): text = written
        case .number("0"): text = "0s"
        default:
            wrongType(value, fields.path(of: key), expected: "\(DurationText.form), \(expected)")
            return nil
        }
        guard let duration = DurationText.parse(text) else {
            report(
                value.mark, fields.path(of: key), "\(value.excerpt) is not a duration", expected: DurationText.form)
            return nil
        }
        guard range.contains(duration) else {
            report(value.mark, fields.path(of: key), "\(text) is out of range", expected: expected)
            return nil
        }
        return duration
    }

    /// A string of at most `limit` bytes without control characters.
    mutating func string(_ key: String, in fields: Fields, limit: Int, allowsEmpty: Bool = false) -> String? {
        guard let value = fields[key] else { return nil }
        return string(value, path: fields.path(of: key), limit: limit, allowsEmpty: allowsEmpty)
    }

    mutating func string(_ value: LocatedValue, path: String, limit: Int, allowsEmpty: Bool = false) -> String? {
        guard case .string(let text) = value.content else {
            let hint = value.isScalar ? "a string (put it in quotes)" : "a string"
            wrongType(value, path, expected: hint)
            return nil
        }
        if text.isEmpty, !allowsEmpty {
            report(value.mark, path, "is empty", expected: "1 to \(limit) bytes")
            return nil
        }
        guard text.utf8.count <= limit else {
            report(value.mark, path, "has \(text.utf8.count) bytes", expected: "at most \(limit)")
            return nil
        }
        let controls = text.unicodeScalars.contains { $0.properties.generalCategory == .control && $0 != "\n" }
        guard !controls else {
            report(value.mark, path, "has control characters", expected: "text without them")
            return nil
        }
        return text
    }

    /// A list whose items `read` turns into values; items that fail are left out, a value that is given twice is
    /// reported.
    mutating func list<Item: Hashable>(
        _ key: String, in fields: Fields, of what: String,
        read: (inout FieldReader, LocatedValue, String) -> Item?
    ) -> [Item]? {
        guard let value = fields[key] else { return nil }
        guard case .sequence(let items) = value.content else {
            wrongType(value, fields.path(of: key), expected: "a list of \(what)")
            return nil
        }
        var result: [Item] = []
        var seen: Set<Item> = []
        for (index, item) in items.enumerated() {
            let path = "\(fields.path(of: key))[\(index)]"
            guard let read = read(&self, item, path) else { continue }
            if seen.insert(read).inserted {
                result.append(read)
            } else {
                report(item.mark, path, "\(item.excerpt) is listed twice", expected: "every value once")
            }
        }
        return result
    }

    /// One of a few names.
    mutating func choice<Value>(
        _ value: LocatedValue, path: String, of choices: [(name: String, value: Value)]
    ) -> Value? {
        let names = choices.map(\.name)
        guard case .string(let text) = value.content else {
            wrongType(value, path, expected: names.joined(separator: ", "))
            return nil
        }
        if let choice = choices.first(where: { $0.name == text }) { return choice.value }
        let meant = Suggestion.closest(to: text, among: names).map { " (did you mean \"\($0)\"?)" } ?? ""
        report(value.mark, path, "unknown value \(value.excerpt)\(meant)", expected: names.joined(separator: ", "))
        return nil
    }

    mutating func wrongType(_ value: LocatedValue, _ path: String, expected: String) {
        let found =
            switch value.content {
            case .number, .bool, .string: "\(value.excerpt) is \(value.typeName)"
            case .null, .sequence, .mapping: "is \(value.typeName)"
            }
        report(value.mark, path, found, expected: expected)
    }
}

extension LocatedValue {
    /// Whether it is a boolean, a number or a string.
    var isScalar: Bool {
        switch content {
        case .bool, .number, .string: true
        case .null, .sequence, .mapping: false
        }
    }
}
