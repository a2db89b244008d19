// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import WidgetModel

/// A source of settings: the environment, the flags, or a file.
///
/// A file is YAML or JSON, flattened to the names of ``SettingKey``: `postgres: {url: …}` and `postgres.url: …` are the
/// same.
struct SettingSource: Sendable {
    /// Path of the file; nil for other sources.
    private var path: String?
    /// Values as text, with their places: `freshet.yaml:12:3`, a variable, or a flag.
    private(set) var values: [String: (text: String, place: String)] = [:]
    private(set) var problems: [SettingProblem] = []

    /// Folder that relative paths start from; nil for the working directory.
    var folder: String? { path.map { URL(fileURLWithPath: $0).deletingLastPathComponent().path } }

    /// Creates a source of the variables of `names`. A variable without a value is an error, because a deployment that
    /// lost a value must not continue with the default.
    init(environment: [String: String], names: [String]) {
        for name in names {
            let variable = SettingKey.environmentName(of: name)
            guard let text = environment[variable] else { continue }
            guard text.allSatisfy(\.isWhitespace) else {
                values[name] = (text, variable)
                continue
            }
            problems.append(
                SettingProblem(
                    key: name, source: variable, reason: "is set to nothing",
                    expectation: "a value, or no such variable"))
        }
    }

    /// Creates a source of command-line options, by the names of their settings.
    init(flags: [String: String]) {
        for (name, text) in flags.sorted(by: { $0.key < $1.key }) {
            guard !SettingKey.knownNames.contains(name) else {
                values[name] = (text, "the option for \(name)")
                continue
            }
            problems.append(
                SettingProblem(
                    key: name, source: "the options", reason: "unknown setting",
                    expectation: name.closest(among: SettingKey.knownNames)))
        }
    }

    /// Reads the file at `path`. Blocks while it reads.
    init(file path: String) {
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
        do throws(CommandFailure) {
            read(yaml: try String(file: path, maximumBytes: 1 << 20), of: path)
        } catch {
            problems = [SettingProblem(key: "", reason: error.message)]
        }
    }
}

// MARK: Files

extension SettingSource {
    private mutating func read(yaml text: String, of path: String) {
        let (documents, problems) = LocatedYAML.read(text, file: path)
        self.problems += problems.map { problem in
            SettingProblem(
                key: problem.path, source: problem.location.map(place) ?? path, reason: problem.message,
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
                    expected: name.closest(among: SettingKey.knownNames).map {
                        "\"\($0)\" (did you mean it?)"
                    } ?? "one of those that `freshet config keys` lists")
            }
        }
    }

    private mutating func set(_ name: String, to value: JSONValue, at location: SourceLocation) {
        let text: String?
        let expected: String
        switch SettingKey.byName[name]?.shape ?? .scalar {
        case .scalar: (text, expected) = (Self.text(value), "one value")
        case .list:
            let texts = value.arrayValue?.map(Self.text)
            text = texts.map { $0.contains(nil) ? nil : SettingKey.join($0.compactMap { $0 }) } ?? Self.text(value)
            expected = "a list of values"
        case .map:
            text = Self.text(value) ?? Self.pairs(value, "").map(SettingKey.join)
            expected = "a mapping of names to values"
        }
        if let text, values[name] == nil {
            values[name] = (text, place(location))
        } else if text == nil {
            report(name, location, "is \(value.kind.name)", expected: expected)
        } else {
            report(name, location, "is set twice", expected: "every setting once")
        }
    }

    private mutating func report(_ key: String, _ location: SourceLocation, _ reason: String, expected: String) {
        problems.append(SettingProblem(key: key, source: place(location), reason: reason, expectation: expected))
    }

    private func place(_ location: SourceLocation) -> String { "\(path ?? ""):\(location.line):\(location.column)" }

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
