import Foundation
import WidgetModel

/// A file of settings, YAML or JSON, flattened to the names of the table: `postgres: {url: …}` and `postgres.url: …` are
/// the same.
struct SettingsFile: Sendable {
    /// A value as text, with its place.
    struct Value: Sendable, Equatable {
        var text: String
        /// `freshet.yaml:12:3`
        var place: String
    }

    let path: String
    private(set) var values: [String: Value] = [:]
    private(set) var problems: [SettingProblem] = []

    var folder: String {
        URL(fileURLWithPath: path).deletingLastPathComponent().path
    }

    private static let maximumBytes = 1_024 * 1_024

    /// Reads the file at `path`, blocking. Errors are in `problems`.
    init(path: String) {
        self.path = path
        do throws(BoundedFile.Unreadable) {
            read(try BoundedFile.read(path: path, maximumBytes: Self.maximumBytes))
        } catch {
            problems = [SettingProblem(key: "", reason: error.message)]
        }
    }

    /// Reads `text` in the format of the path's extension.
    init(path: String, text: String) {
        self.path = path
        read(text)
    }

    private mutating func read(_ text: String) {
        switch URL(fileURLWithPath: path).pathExtension.lowercased() {
        // JSON is YAML.
        case "yaml", "yml", "json": readYAML(text)
        default:
            problems = [
                SettingProblem(
                    key: "", source: path, reason: "unknown format of the configuration file",
                    expectation: "a name that ends in .yaml, .yml or .json")
            ]
        }
    }

    private mutating func readYAML(_ text: String) {
        let outcome = LocatedYAML.read(text, file: path)
        problems += outcome.problems.map { problem in
            SettingProblem(
                key: problem.path, source: place(problem.mark), reason: problem.message,
                expectation: problem.expectation)
        }
        guard outcome.documents.count <= 1 else {
            report(outcome.documents[1], "", "a second YAML document", expected: "one document")
            return
        }
        if let document = outcome.documents.first, !document.isNull { flatten(document, path: "") }
    }

    private mutating func flatten(_ value: LocatedValue, path: String) {
        guard case .mapping(let members) = value.content else {
            report(value, path, "is \(value.typeName)", expected: "a mapping of settings")
            return
        }
        for member in members {
            let key = Text.containsControlCharacter(member.key) ? Text.quoted(member.key) : member.key
            let name = path.isEmpty ? key : "\(path).\(key)"
            // A key without a value leaves the default.
            if SettingKey.knownNames.contains(name) {
                if !member.value.isNull { set(name, to: member.value) }
            } else if SettingKey.knownNames.contains(where: { $0.hasPrefix(name + ".") }) {
                if !member.value.isNull { flatten(member.value, path: name) }
            } else {
                problems.append(
                    SettingProblem(
                        key: name, source: place(member.keyMark), reason: "unknown setting",
                        expectation: Suggestion.closest(to: name, among: SettingKey.knownNames).map {
                            "\"\($0)\" (did you mean it?)"
                        } ?? "one of those that `freshet config keys` lists"))
            }
        }
    }

    private mutating func set(_ name: String, to value: LocatedValue) {
        let shape = SettingKey.byName[name]?.shape ?? .scalar
        let text: String?
        switch (shape, value.content) {
        case (.list, .sequence(let items)):
            let texts = items.compactMap(\.scalarText)
            text = texts.count == items.count ? SettingText.join(texts) : nil
        case (.map, .mapping):
            text = value.pairs(prefix: "").map { SettingText.join($0.map { "\($0.name)=\($0.value)" }) }
        default:
            text = value.scalarText
        }
        guard let text else {
            let expected =
                switch shape {
                case .scalar: "one value"
                case .list: "a list of values"
                case .map: "a mapping of names to values"
                }
            report(value, name, "is \(value.typeName)", expected: expected)
            return
        }
        guard values[name] == nil else {
            report(value, name, "is set twice", expected: "every setting once")
            return
        }
        values[name] = Value(text: text, place: place(value.mark))
    }

    private mutating func report(_ value: LocatedValue, _ key: String, _ reason: String, expected: String) {
        problems.append(SettingProblem(key: key, source: place(value.mark), reason: reason, expectation: expected))
    }

    private func place(_ mark: SourceMark?) -> String {
        guard let mark else { return path }
        return "\(path):\(mark.line):\(mark.column)"
    }
}

extension LocatedValue {
    /// A boolean, number or string as text.
    fileprivate var scalarText: String? {
        switch content {
        case .scalar(.bool(let value)): "\(value)"
        case .scalar(.number(let number)): number.text
        case .scalar(.string(let text)): text
        default: nil
        }
    }

    /// The leaves of a mapping with dotted names: `ssl: {ca: {location: …}}` and `ssl.ca.location: …` are the same.
    fileprivate func pairs(prefix: String) -> [(name: String, value: String)]? {
        if let text = scalarText { return [(prefix, text)] }
        guard case .mapping(let members) = content else { return nil }
        var pairs: [(name: String, value: String)] = []
        for member in members {
            let name = prefix.isEmpty ? member.key : "\(prefix).\(member.key)"
            guard let below = member.value.pairs(prefix: name) else { return nil }
            pairs += below
        }
        return pairs
    }
}
