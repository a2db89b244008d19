import Configuration

/// A source of settings, read by a provider of swift-configuration, with names of places for messages.
struct SettingSource: Sendable {
    /// Folder that relative paths start from; nil for the working directory.
    var folder: String?
    private var isEnvironment = false
    private let reader: ConfigReader
    private let place: @Sendable (String) -> String

    /// The text of `key`; nil if the source does not set it.
    func text(of key: String) -> String? {
        isBlank(key) ? nil : reader.string(forKey: ConfigKey(key), isSecret: true)
    }

    /// Whether `key` is an environment variable without a value, which is an error.
    func isBlank(_ key: String) -> Bool {
        isEnvironment
            && reader.string(forKey: ConfigKey(key), isSecret: true)?.allSatisfy(\.isWhitespace) == true
    }

    /// Place of `key` in the source: a line of the file, a variable, a flag.
    func place(of key: String) -> String {
        place(key)
    }

    static func environment(_ variables: [String: String]) -> SettingSource {
        let provider = EnvironmentVariablesProvider(environmentVariables: variables, secretsSpecifier: .all)
        return SettingSource(
            isEnvironment: true, reader: ConfigReader(provider: provider.prefixKeys(with: "freshet")),
            place: { SettingNames.environmentName(of: $0) })
    }

    /// Values of command-line options, by the names of their settings.
    static func flags(_ values: [String: String]) -> SettingSource {
        SettingSource(
            reader: ConfigReader(provider: inMemory("flags", values)), place: { "the option for \($0)" })
    }

    static func file(_ file: SettingsFile) -> SettingSource {
        let places = file.values.mapValues { $0.place }
        return SettingSource(
            folder: file.folder, reader: ConfigReader(provider: inMemory(file.path, file.values.mapValues { $0.text })),
            place: { [path = file.path] in places[$0] ?? path })
    }

    private static func inMemory(_ name: String, _ values: [String: String]) -> InMemoryProvider {
        InMemoryProvider(
            name: name,
            values: Dictionary(
                uniqueKeysWithValues: values.map { key, text in
                    (AbsoluteConfigKey(ConfigKey(key)), ConfigValue(.string(text), isSecret: true))
                }))
    }
}
