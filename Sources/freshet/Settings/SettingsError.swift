import WidgetModel

/// One setting that is wrong: which, what it was, where it came from, and what it may be.
struct SettingProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// The setting's name; empty when a source as a whole could not be read.
    var key: String
    /// Where the value came from: `freshet.yaml:12:3`, `FRESHET_API_PORT`, `--api-port`; nil when it came from nowhere.
    var source: String?
    /// The value as it was given; nil when there was none or it may be a secret.
    var value: String?
    var reason: String
    var expectation: String?

    /// `workers.lease: "5 minutes" is out of range; expected 1s to 1h (from FRESHET_WORKERS_LEASE)`
    var description: String {
        var text = key.isEmpty ? "" : key + ": "
        if let value { text += Text.quoted(value) + " " }
        text += reason
        if let expectation { text += "; expected " + expectation }
        if let source { text += " (from \(source))" }
        return text
    }
}

/// Settings that cannot be used: everything that is wrong with them.
struct SettingsError: Error, Sendable, CustomStringConvertible {
    let problems: [SettingProblem]

    /// One line a problem.
    var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}
