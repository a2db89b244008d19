// SPDX-License-Identifier: Apache-2.0

import Foundation
package import JSON
import KafkaClient
import Logging
import ReloadWorkers
import WidgetAPI
import WidgetDelivery
import WidgetModel

/// Settings with their places, as they were read from the sources.
package struct LoadedSettings: Sendable {
    package private(set) var settings = Settings()
    /// Places of the settings that differ from their defaults, by name.
    package private(set) var places: [String: String] = [:]
    /// Warnings, such as environment variables that name no setting.
    package let warnings: [String]
    /// All errors. A setting with an error keeps its default.
    package private(set) var problems: [SettingProblem] = []

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
    init(
        flags: [String: String] = [:], configurationFile: String? = nil,
        environment: [String: String] = ProcessInfo.processInfo.environment, requiring required: [String] = []
    ) {
        warnings = Self.unknownVariables(environment)
        settings.proxyProblem = Settings.proxyProblem(in: environment)
        let variables = SettingSource(environment: environment, names: SettingKey.knownNames + [Self.fileKey])
        var sources = [variables, SettingSource(flags: flags)]
        if let path = configurationFile ?? variables.values[Self.fileKey]?.text {
            sources.insert(SettingSource(file: path), at: 0)
        }
        problems = sources.flatMap(\.problems)
        for key in SettingKey.all { read(key, from: sources) }
        checkTogether(required: required)
    }

    /// Variables with Freshet's prefix that name no setting.
    private static func unknownVariables(_ environment: [String: String]) -> [String] {
        let known = (SettingKey.knownNames + [fileKey]).map(SettingKey.environmentName) + scriptVariables
        return environment.keys.sorted().compactMap { name in
            guard name.hasPrefix(SettingKey.environmentPrefix), !name.hasPrefix("FRESHET_TEST_"),
                !known.contains(name)
            else { return nil }
            return "the environment variable \(name) names no setting\(name.hint(among: known))"
        }
    }

    /// Each setting with its value, redacted if it is secret, and its place.
    package var rows: [(name: String, value: String?, place: String)] {
        SettingKey.all.map { ($0.name, $0.display(settings), places[$0.name] ?? "default") }
    }

    /// - Throws: all errors at once.
    package func checked() throws(CommandFailure) -> LoadedSettings {
        guard problems.isEmpty else { throw CommandFailure(settings: problems) }
        return self
    }

    // MARK: Reading

    private mutating func report(
        key: String, source: String? = nil, value: String? = nil, reason: String, expectation: String?
    ) {
        problems.append(
            SettingProblem(key: key, source: source, value: value, reason: reason, expectation: expectation))
    }

    private mutating func read(_ key: SettingKey, from sources: [SettingSource]) {
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
        let direct = source.values[key.name]
        guard let fileKey = key.fileKeyName, let (path, place) = source.values[fileKey] else { return direct }
        if let direct {
            report(
                key: key.name, source: "\(direct.place), \(place)", reason: "is given both itself and as a file",
                expectation: "one of them")
            return nil
        }
        let folder = URL(fileURLWithPath: source.folder ?? FileManager.default.currentDirectoryPath, isDirectory: true)
        do throws(CommandFailure) {
            let text = try String(file: URL(fileURLWithPath: path, relativeTo: folder).path, maximumBytes: 65_536)
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
        return SettingKey.join(lines.filter { !$0.isEmpty && !$0.hasPrefix("#") })
    }

    private mutating func assign(_ key: SettingKey, _ text: String, place: String) {
        do {
            try key.assign(&settings, text)
            places[key.name] = place
        } catch {
            report(
                key: key.name, source: place, value: key.isSecret ? nil : text,
                reason: (error as? ModelError)?.message ?? (key.isSecret ? "is not allowed" : "\(error)"),
                expectation: key.expectation)
        }
    }

    // MARK: Rules between settings

    /// Checks required settings and the rules between settings.
    private mutating func checkTogether(required: [String]) {
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
                value: settings.kafka.deliveryTimeout.text, reason: "is not under the lease",
                expectation: "less than workers.lease, which is \(settings.workers.lease.text)")
        }
        let delivery = settings.delivery.service
        if delivery.timeout > delivery.lease / 2 {
            report(
                key: "delivery.timeout", source: places["delivery.timeout"] ?? places["delivery.lease"],
                value: delivery.timeout.text, reason: "is over half the lease",
                expectation: "at most half of delivery.lease, which is \(delivery.lease.text)")
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
        func contradict(_ reason: String, expected expectation: String) {
            report(
                key: "kafka.embedded", source: places["kafka.embedded"], value: "true", reason: reason,
                expectation: expectation)
        }
        if settings.kafka.bootstrapServers != nil {
            contradict("contradicts kafka.bootstrapServers", expected: "one of them")
        }
        if settings.role != .all {
            contradict(
                "is for the role all: other processes cannot share the cluster (role is \(settings.role.rawValue))",
                expected: "kafka.bootstrapServers, perhaps of `freshet kafka`")
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

// MARK: Files that the settings name

extension LoadedSettings {
    /// Errors in the files and texts that the settings name, which only their users read. Connects to nothing.
    package func contentProblems() async -> [SettingProblem] {
        var problems: [SettingProblem] = []
        func report(_ key: String, reason: String) {
            let message = reason.replacing("\(key): ", with: "")
            problems.append(SettingProblem(key: key, source: places[key], reason: message))
        }
        do throws(KafkaError) {
            // The port of no broker: only the properties are checked.
            let producer = try KafkaProducer(
                configuration: KafkaConfiguration(
                    bootstrapServers: "127.0.0.1:1", properties: settings.kafka.properties),
                deliveryTimeout: settings.kafka.deliveryTimeout, logger: .ofCommands)
            await producer.shutdown()
        } catch {
            report("kafka.properties", reason: error.message)
        }
        do throws(CommandFailure) {
            _ = try settings.connectionLimits()
        } catch {
            report("providers.trustRoots", reason: error.message)
        }
        if let path = settings.api.keys {
            do {
                _ = try await TokenKeys(jwks: try await TokenKeys.read(path))
            } catch {
                report("api.keys", reason: "\(path): \(error)")
            }
        }
        return problems
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

extension CommandFailure {
    /// Failure of a command whose settings have problems.
    package init(settings problems: [SettingProblem]) {
        self.init(
            .configuration, "the settings cannot be used:\n" + problems.map(\.description).joined(separator: "\n"),
            problems: problems.map(\.json))
    }
}

extension Settings {
    /// Settings that differ from their defaults, as a settings file has them; it holds their secrets.
    package var document: JSONValue {
        let defaults = Settings()
        let members = SettingKey.all.compactMap { key -> (key: String, value: JSONValue)? in
            guard let text = key.write(self), text != key.write(defaults) else { return nil }
            return (key.name, .string(text))
        }
        return .object(JSONObject(members))
    }
}
