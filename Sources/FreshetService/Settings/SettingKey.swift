/// Description of a setting. Reading, `config show`, `config keys` and the check for unknown keys all use this table.
package struct SettingKey: Sendable {
    /// `workers.claimBatch`
    package let name: String
    package let summary: String
    /// Allowed values: "1 to 1000", "text or json".
    package let expectation: String
    /// Whether the value may hold a secret, which is never printed and can be kept in a file named by `fileKeyName`.
    package let isSecret: Bool
    package let shape: Shape
    /// Sets the value from text.
    let assign: @Sendable (inout Settings, String) throws(SettingMismatch) -> Void
    /// The value as text, as `assign` takes it; nil if it is not set.
    package let write: @Sendable (Settings) -> String?

    /// Layout of a value in a file, and combination of several sources.
    package enum Shape: Sendable {
        case scalar
        /// Comma-separated in one text.
        case list
        /// Comma-separated `name=value` pairs in one text; sources are merged by name.
        case map
    }

    /// The environment variable that carries the setting: `FRESHET_WORKERS_CLAIM_BATCH`.
    package var environmentName: String {
        SettingNames.environmentName(of: name)
    }

    /// The setting that names a file with the value: `postgres.urlFile`.
    package var fileKeyName: String? {
        isSecret ? name + "File" : nil
    }

    /// The default as text; nil for none.
    package var defaultText: String? {
        write(Settings())
    }

    /// The value for printing; only the names of a map that may hold secrets.
    package func display(_ settings: Settings) -> String? {
        guard let text = write(settings) else { return nil }
        guard isSecret, !text.isEmpty else { return text }
        guard case .map = shape else { return SettingNames.redacted }
        let names = SettingText.split(text).map { $0.prefix { $0 != "=" } }
        return names.map { "\($0)=\(SettingNames.redacted)" }.joined(separator: ",")
    }
}

/// Error of a value that its setting does not allow, with a reason beyond the expectation.
package struct SettingMismatch: Error, Sendable {
    var reason: String?
}

package enum SettingNames {
    /// Text printed in place of a secret.
    package static let redacted = "<redacted>"
    static let environmentPrefix = "FRESHET_"

    /// `workers.claimBatch` → `FRESHET_WORKERS_CLAIM_BATCH`, as swift-configuration derives it.
    package static func environmentName(of key: String) -> String {
        var name = environmentPrefix
        var previousIsLowercase = false
        for character in key {
            if character.isUppercase, previousIsLowercase { name.append("_") }
            previousIsLowercase = character.isLowercase
            name.append(character == "." ? "_" : character.uppercased())
        }
        return name
    }
}
