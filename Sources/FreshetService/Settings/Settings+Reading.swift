import Foundation
package import JSON
import ReloadWorkers
import WidgetDelivery
import WidgetModel

/// Settings with their places.
package struct LoadedSettings: Sendable {
    package let settings: Settings
    /// Places of the settings that differ from their defaults, by name.
    package let places: [String: String]
    /// Warnings, such as environment variables that name no setting.
    package let warnings: [String]
    /// All errors. A setting with an error keeps its default.
    package let problems: [SettingProblem]

    /// Each setting with its value, redacted if it is secret, and its place.
    package var rows: [(name: String, value: String?, place: String)] {
        SettingKey.all.map { ($0.name, $0.display(settings), places[$0.name] ?? "default") }
    }

    /// - Throws: all errors at once.
    package func checked() throws(SettingsError) -> LoadedSettings {
        guard problems.isEmpty else { throw SettingsError(problems: problems) }
        return self
    }
}

extension Settings {
    /// Key of the environment variable `FRESHET_CONFIG_FILE`, which names the configuration file when no option does.
    private static let fileKey = "config.file"

    /// Variables of the scripts in deploy/.
    private static let scriptVariables = ["FRESHET_SWIFT_BIN", "FRESHET_POSTGRES_BIN", "FRESHET_PROGRAM"]

    /// Reads the settings: defaults, overridden by the file, then the environment, then the flags. Blocks while it
    /// reads files.
    /// - Parameters:
    ///   - flags: values of command-line options by setting.
    ///   - configurationFile: the `--config` option.
    ///   - required: settings that the command needs, such as `postgres.url`.
    package static func read(
        flags: [String: String] = [:], configurationFile: String? = nil,
        environment: [String: String] = ProcessInfo.processInfo.environment, requiring required: [String] = []
    ) -> LoadedSettings {
        var reading = SettingsReading()
        reading.settings.proxyProblem = ProxyVariables.problem(in: environment)
        var sources: [SettingSource] = []
        let variables = SettingSource.environment(environment)
        reading.checkVariables(variables, names: SettingKey.knownNames + [fileKey])
        if let path = configurationFile ?? variables.text(of: fileKey) {
            let file = SettingsFile(path: path)
            reading.problems += file.problems
            sources.append(.file(file))
        }
        sources.append(variables)
        for name in flags.keys.sorted() where !SettingKey.knownNames.contains(name) {
            reading.report(
                key: name, source: "the options", reason: "unknown setting",
                expectation: Suggestion.closest(to: name, among: SettingKey.knownNames))
        }
        sources.append(.flags(flags.filter { SettingKey.knownNames.contains($0.key) }))

        for key in SettingKey.all { reading.read(key, from: sources) }
        reading.checkTogether(required: required)
        return LoadedSettings(
            settings: reading.settings, places: reading.places, warnings: unknownVariables(environment),
            problems: reading.problems)
    }

    /// Variables with Freshet's prefix that name no setting.
    private static func unknownVariables(_ environment: [String: String]) -> [String] {
        let known = (SettingKey.knownNames + [fileKey]).map(SettingNames.environmentName) + scriptVariables
        return environment.keys.sorted().compactMap { name in
            guard name.hasPrefix(SettingNames.environmentPrefix), !name.hasPrefix("FRESHET_TEST_"),
                !known.contains(name)
            else { return nil }
            let meant = Suggestion.closest(to: name, among: known).map { "; did you mean \($0)?" } ?? ""
            return "the environment variable \(name) names no setting\(meant)"
        }
    }
}

private struct SettingsReading {
    var settings = Settings()
    var places: [String: String] = [:]
    var problems: [SettingProblem] = []

    mutating func report(
        key: String, source: String? = nil, value: String? = nil, reason: String, expectation: String?
    ) {
        problems.append(
            SettingProblem(key: key, source: source, value: value, reason: reason, expectation: expectation))
    }

    /// Reports variables without a value, because a deployment that lost a value must not continue with the default.
    mutating func checkVariables(_ variables: SettingSource, names: [String]) {
        for name in names where variables.isBlank(name) {
            report(
                key: name, source: variables.place(of: name), reason: "is set to nothing",
                expectation: "a value, or no such variable")
        }
    }

    mutating func read(_ key: SettingKey, from sources: [SettingSource]) {
        let found = sources.compactMap { value(of: key, in: $0) }
        switch key.shape {
        case .scalar, .list:
            // Only the value that takes effect is checked.
            if let last = found.last { assign(key, last.text, place: last.place) }
        case .map:
            for value in found { assign(key, value.text, place: value.place) }
            if found.count > 1 { places[key.name] = found.map(\.place).joined(separator: ", ") }
        }
    }

    private mutating func value(of key: SettingKey, in source: SettingSource) -> (text: String, place: String)? {
        let direct = source.text(of: key.name)
        guard let fileKey = key.fileKeyName, let path = source.text(of: fileKey) else {
            return direct.map { ($0, source.place(of: key.name)) }
        }
        let place = source.place(of: fileKey)
        guard direct == nil else {
            report(
                key: key.name, source: "\(source.place(of: key.name)), \(place)",
                reason: "is given both itself and as a file", expectation: "one of them")
            return nil
        }
        let folder = URL(fileURLWithPath: source.folder ?? FileManager.default.currentDirectoryPath, isDirectory: true)
        do throws(BoundedFile.Unreadable) {
            let text = try BoundedFile.read(
                path: URL(fileURLWithPath: path, relativeTo: folder).path, maximumBytes: 65_536)
            return (Self.fileText(text, shape: key.shape), place)
        } catch {
            report(
                key: fileKey, source: place, reason: error.message,
                expectation: "a file with the value of \(key.name)")
            return nil
        }
    }

    /// The value in a file: its text without the final line break, or the lines of a map.
    private static func fileText(_ text: String, shape: SettingKey.Shape) -> String {
        guard case .map = shape else { return text.trimmingCharacters(in: .whitespacesAndNewlines) }
        let lines = text.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) }
        return SettingText.join(lines.filter { !$0.isEmpty && !$0.hasPrefix("#") })
    }

    private mutating func assign(_ key: SettingKey, _ text: String, place: String) {
        do {
            try key.assign(&settings, text)
            places[key.name] = place
        } catch {
            report(
                key: key.name, source: place, value: key.isSecret ? nil : text,
                reason: (error as? SettingMismatch)?.reason ?? "is not allowed", expectation: key.expectation)
        }
    }

    /// Checks required settings and the rules between settings.
    mutating func checkTogether(required: [String]) {
        for name in required where !settings.kafka.embedded || name != "kafka.bootstrapServers" { require(name) }
        if settings.postgres.url != nil {
            do throws(CommandFailure) {
                _ = try settings.postgresConfiguration()
            } catch {
                report(
                    key: "postgres.url", source: places["postgres.url"],
                    reason: error.message.replacing("postgres.url: ", with: ""),
                    expectation: SettingKey.byName["postgres.url"]?.expectation)
            }
        }
        if settings.kafka.deliveryTimeout >= settings.workers.lease {
            report(
                key: "kafka.deliveryTimeout", source: places["kafka.deliveryTimeout"] ?? places["workers.lease"],
                value: DurationText.write(settings.kafka.deliveryTimeout), reason: "is not under the lease",
                expectation: "less than workers.lease, which is \(DurationText.write(settings.workers.lease))")
        }
        let delivery = settings.delivery.service
        if delivery.timeout > delivery.lease / 2 {
            report(
                key: "delivery.timeout", source: places["delivery.timeout"] ?? places["delivery.lease"],
                value: DurationText.write(delivery.timeout), reason: "is over half the lease",
                expectation: "at most half of delivery.lease, which is \(DurationText.write(delivery.lease))")
        }
        checkEmbedded()
        checkConsole()
        checkTopics()
    }

    /// Reports a setting that is not set, unless it is present and already reported as wrong.
    private mutating func require(_ name: String, because reason: String = "") {
        guard let key = SettingKey.byName[name], key.write(settings) == nil,
            !problems.contains(where: { $0.key == name || $0.key == key.fileKeyName })
        else { return }
        report(
            key: name, reason: "is not set\(reason): give it as \(key.environmentName), or in the configuration file",
            expectation: key.expectation)
    }

    private mutating func checkConsole() {
        guard settings.console.enabled, settings.role.runsAPI else { return }
        for name in ["console.key", "api.keys"] { require(name, because: ", and console.enabled needs it") }
    }

    private mutating func checkEmbedded() {
        guard settings.kafka.embedded else { return }
        func contradict(_ reason: String, _ expectation: String) {
            report(
                key: "kafka.embedded", source: places["kafka.embedded"], value: "true", reason: reason,
                expectation: expectation)
        }
        if settings.kafka.bootstrapServers != nil {
            contradict("contradicts kafka.bootstrapServers", "one of them")
        }
        if settings.role != .all {
            contradict(
                "is for the role all: other processes cannot share the cluster (role is \(settings.role.rawValue))",
                "kafka.bootstrapServers, perhaps of `freshet kafka`")
        }
    }

    private mutating func checkTopics() {
        var owners: [String: String] = [:]
        for key in SettingKey.all where key.name.hasPrefix("topics.") {
            guard case .scalar = key.shape, let topic = key.write(settings) else { continue }
            if let owner = owners[topic] {
                report(
                    key: key.name, source: places[key.name] ?? places[owner], value: topic, reason: "is also \(owner)",
                    expectation: "a topic of its own")
            }
            owners[topic] = owners[topic] ?? key.name
        }
        for topic in settings.topics.more.keys.sorted() {
            guard let owner = owners[topic] else { continue }
            report(
                key: "topics.more", source: places["topics.more"], value: topic, reason: "is also \(owner)",
                expectation: "a topic of its own")
        }
        for topic in settings.topics.allowedApps.keys.sorted() where !settings.topics.inputs.contains(topic) {
            report(
                key: "topics.allowedApps", source: places["topics.allowedApps"], value: topic,
                reason: "is no input topic", expectation: "one of \(settings.topics.inputs.joined(separator: ", "))")
        }
    }
}

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
