/// One setting: its name, what it means, what it may be, and where it goes.
///
/// The one table of settings: reading, `config show`, `config keys`, and the check for unknown keys all go by it.
struct SettingKey: Sendable {
    /// `workers.claimBatch`
    let name: String
    /// One line for people.
    let summary: String
    /// What a value may be: "1 to 1000", "text or json".
    let expectation: String
    /// Whether the value may hold a secret, and so is never printed. It can then also be kept in a file that
    /// `fileKeyName` names.
    let isSecret: Bool
    let shape: Shape
    /// Puts the text of a value into the settings.
    let assign: @Sendable (inout Settings, String) throws(SettingMismatch) -> Void
    /// The value as text, in the form that `assign` takes; nil when it is not set.
    let write: @Sendable (Settings) -> String?

    /// How a value is laid out in a file, and how those of several sources are put together.
    enum Shape: Sendable {
        case scalar
        /// Comma-separated in one text.
        case list
        /// Comma-separated `name=value` pairs in one text; sources add to each other, name by name.
        case map
    }

    /// The environment variable that carries the setting: `FRESHET_WORKERS_CLAIM_BATCH`.
    var environmentName: String {
        SettingNames.environmentName(of: name)
    }

    /// The setting that names a file with the value: `postgres.urlFile`.
    var fileKeyName: String? {
        isSecret ? name + "File" : nil
    }

    /// The default as text; nil when there is none.
    var defaultText: String? {
        write(Settings())
    }

    /// The value for printing; of a map that may hold secrets only the names.
    func display(_ settings: Settings) -> String? {
        guard let text = write(settings) else { return nil }
        guard isSecret, !text.isEmpty else { return text }
        guard case .map = shape else { return SettingNames.redacted }
        let names = SettingText.split(text).map { $0.prefix { $0 != "=" } }
        return names.map { "\($0)=\(SettingNames.redacted)" }.joined(separator: ",")
    }
}

/// A value that is not what its setting may be; the reason when the expectation alone does not say it.
struct SettingMismatch: Error, Sendable {
    var reason: String?
}

enum SettingNames {
    /// What is printed in place of a secret.
    static let redacted = "<redacted>"
    static let environmentPrefix = "FRESHET_"

    /// `workers.claimBatch` → `FRESHET_WORKERS_CLAIM_BATCH`, as swift-configuration derives it.
    static func environmentName(of key: String) -> String {
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
