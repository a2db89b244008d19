import Foundation
import JSON
import WidgetModel

/// A file of settings, YAML or JSON, flattened to the names of ``SettingKey``: `postgres: {url: …}` and
/// `postgres.url: …` are the same.
struct SettingsFile: Sendable {
    let path: String
    /// Values as text, with their places such as `freshet.yaml:12:3`.
    private(set) var values: [String: (text: String, place: String)] = [:]
    private(set) var problems: [SettingProblem] = []

    var folder: String {
        URL(fileURLWithPath: path).deletingLastPathComponent().path
    }

    /// Reads the file at `path`. Blocks while it reads. Errors are in `problems`.
    init(path: String) {
        self.path = path
        // JSON is YAML.
        guard ["yaml", "yml", "json"].contains(URL(fileURLWithPath: path).pathExtension.lowercased()) else {
            problems = [
                SettingProblem(
                    key: "", source: path, reason: "unknown format of the configuration file",
                    expectation: "a name that ends in .yaml, .yml or .json")
            ]
            return
        }
        do throws(BoundedFile.Unreadable) {
            readYAML(try BoundedFile.read(path: path, maximumBytes: 1 << 20))
        } catch {
            problems = [SettingProblem(key: "", reason: error.message)]
        }
    }

    private mutating func readYAML(_ text: String) {
        let (documents, problems) = LocatedYAML.read(text, file: path)
        self.problems += problems.map { problem in
            SettingProblem(
                key: problem.path, source: problem.mark.map(place) ?? path, reason: problem.message,
                expectation: problem.expectation)
        }
        guard documents.count <= 1 else {
            report("", documents[1].place(of: []).value, "a second YAML document", expected: "one document")
            return
        }
        if let document = documents.first, document.json != .null { flatten(document.json, of: document, at: []) }
    }

    /// Sets the settings below a mapping.
    ///
    /// - Parameter tokens: keys that lead to the value.
    private mutating func flatten(_ value: JSONValue, of document: LocatedYAML, at tokens: [String]) {
        guard let members = value.objectValue?.members else {
            report(
                tokens.joined(separator: "."), document.place(of: tokens).value, "is \(value.kind.name)",
                expected: "a mapping of settings")
            return
        }
        for member in members {
            let tokens = tokens + [member.key]
            let name = tokens.map { Text.containsControlCharacter($0) ? Text.quoted($0) : $0 }.joined(separator: ".")
            let place = document.place(of: tokens)
            // A key without a value keeps the default.
            if SettingKey.knownNames.contains(name) {
                if member.value != .null { set(name, to: member.value, at: place.value) }
            } else if SettingKey.knownNames.contains(where: { $0.hasPrefix(name + ".") }) {
                if member.value != .null { flatten(member.value, of: document, at: tokens) }
            } else {
                report(
                    name, place.key, "unknown setting",
                    expected: Suggestion.closest(to: name, among: SettingKey.knownNames).map {
                        "\"\($0)\" (did you mean it?)"
                    } ?? "one of those that `freshet config keys` lists")
            }
        }
    }

    private mutating func set(_ name: String, to value: JSONValue, at mark: SourceMark) {
        let text: String?
        let expected: String
        switch SettingKey.byName[name]?.shape ?? .scalar {
        case .scalar: (text, expected) = (Self.text(value), "one value")
        case .list:
            let texts = value.arrayValue?.map(Self.text)
            text = texts.map { $0.contains(nil) ? nil : SettingText.join($0.compactMap { $0 }) } ?? Self.text(value)
            expected = "a list of values"
        case .map:
            text = Self.text(value) ?? Self.pairs(value, "").map(SettingText.join)
            expected = "a mapping of names to values"
        }
        if let text, values[name] == nil {
            values[name] = (text, place(mark))
        } else if text == nil {
            report(name, mark, "is \(value.kind.name)", expected: expected)
        } else {
            report(name, mark, "is set twice", expected: "every setting once")
        }
    }

    private mutating func report(_ key: String, _ mark: SourceMark, _ reason: String, expected: String) {
        problems.append(SettingProblem(key: key, source: place(mark), reason: reason, expectation: expected))
    }

    private func place(_ mark: SourceMark) -> String { "\(path):\(mark.line):\(mark.column)" }

    /// Returns a boolean, number or string as text; nil for any other value.
    private static func text(_ value: JSONValue) -> String? {
        switch value {
        case .bool(let value): "\(value)"
        case .number(let number): number.text
        case .string(let text): text
        case .null, .array, .object: nil
        }
    }

    /// Returns the `name=value` pairs of an object's leaves, with dotted names: `ssl: {ca: {location: …}}` and
    /// `ssl.ca.location: …` are the same. Nil if a leaf is null or an array.
    private static func pairs(_ value: JSONValue, _ name: String) -> [String]? {
        if let text = text(value) { return ["\(name)=\(text)"] }
        guard let members = value.objectValue?.members else { return nil }
        let below = members.map { pairs($0.value, name.isEmpty ? $0.key : "\(name).\($0.key)") }
        return below.contains { $0 == nil } ? nil : below.compactMap { $0 }.flatMap { $0 }
    }
}
