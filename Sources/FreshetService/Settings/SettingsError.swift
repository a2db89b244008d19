package import WidgetModel

package struct SettingProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// Name of the setting; empty if a whole source cannot be read.
    var key: String
    /// Place of the value: `freshet.yaml:12:3`, `FRESHET_API_PORT`, `--api-port`; nil for none.
    var source: String?
    /// The value; nil for none or a secret.
    var value: String?
    var reason: String
    var expectation: String?

    /// `workers.lease: "5 minutes" is out of range; expected 1s to 1h (from FRESHET_WORKERS_LEASE)`
    package var description: String {
        var text = key.isEmpty ? "" : key + ": "
        if let value { text += Text.quoted(value) + " " }
        text += reason
        if let expectation { text += "; expected " + expectation }
        if let source { text += " (from \(source))" }
        return text
    }

    package var json: JSONValue {
        [
            "setting": key.isEmpty ? .null : .string(key), "place": .text(source),
            "value": .text(value), "message": .string(reason),
            "expected": .text(expectation),
        ]
    }
}

package struct SettingsError: Error, Sendable, CustomStringConvertible {
    package let problems: [SettingProblem]

    package init(problems: [SettingProblem]) {
        self.problems = problems
    }

    package var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}
