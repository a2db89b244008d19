// SPDX-License-Identifier: Apache-2.0

package import ArgumentParser
import Foundation
package import JSON
package import Logging
package import PostgresClient
package import WidgetModel
package import WidgetStore

/// Sources of a command's settings.
package struct SettingsOptions: ParsableArguments {
    @Option(name: .shortAndLong, help: "File of settings, YAML or JSON; the default is FRESHET_CONFIG_FILE.")
    package var config: String?

    @Option(
        name: .customLong("set"), parsing: .singleValue,
        help: ArgumentHelp(
            "A setting, over the file and the environment; can be given several times.", valueName: "key=value"))
    package var assignments: [String] = []

    package init() {}

    package func validate() throws {
        for text in assignments {
            guard let separator = text.firstIndex(of: "="), separator > text.startIndex else {
                throw ValidationError("--set \(text): expected key=value, such as --set api.port=8081")
            }
        }
    }

    /// Reads and checks the settings, and prints warnings on standard error.
    ///
    /// - Parameters:
    ///   - options: settings given by options of the command.
    ///   - required: settings that the command needs.
    package func load(
        options: [String: String] = [:], requiring required: [String] = []
    ) throws(CommandFailure) -> LoadedSettings {
        let loaded = try read(options: options, requiring: required).checked()
        for warning in loaded.warnings { Terminal.complain("warning: \(warning)") }
        return loaded
    }

    /// Reads the settings as `load` does, and returns them with all errors.
    package func read(options: [String: String] = [:], requiring required: [String] = []) -> LoadedSettings {
        var flags: [String: String] = [:]
        for text in assignments {
            let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            flags[String(parts[0])] = String(parts[1])
        }
        flags.merge(options) { $1 }
        return LoadedSettings(flags: flags, configurationFile: config, requiring: required)
    }
}

/// Settings and output format of a command.
package struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON.")
    package var json = false

    @OptionGroup package var settings: SettingsOptions

    package init() {}

    /// Prints the document or the text.
    package func print(_ document: JSONValue, or text: String) {
        if json { Terminal.print(document) } else { Terminal.print(text) }
    }

    /// Prints rows as a JSON array, or as a table.
    ///
    /// - Parameter columns: titles with the names of the members that they show.
    package func print(_ rows: [JSONValue], columns: KeyValuePairs<String, String>) {
        if json { Terminal.print(.array(rows)) } else { TextTable(rows, columns: columns).printed() }
    }
}

extension SettingsOptions {
    /// Lends the store of the configured database, which must be at this binary's migrations.
    package func withStore<Value: Sendable>(
        _ body: (WidgetStore, Settings) async throws -> Value
    ) async throws -> Value {
        try await withPool { pool, settings in
            try await pool.requireMigrations()
            return try await body(WidgetStore(pool: pool), settings)
        }
    }

    /// Lends a small pool.
    package func withPool<Value: Sendable>(
        _ body: (PostgresPool, Settings) async throws -> Value
    ) async throws -> Value {
        let settings = try load(requiring: ["postgres.url"]).settings
        return try await settings.withPool { pool in try await body(pool, settings) }
    }
}

extension Settings {
    /// Lends a small pool.
    package func withPool<Value: Sendable>(_ body: (PostgresPool) async throws -> Value) async throws -> Value {
        var configuration = try postgresConfiguration()
        configuration.maximumConnections = min(configuration.maximumConnections, 2)
        return try await PostgresPool.with(configuration, logger: .ofCommands, body)
    }
}

extension PostgresPool {
    /// Lends a pool.
    package static func with<Value: Sendable>(
        _ configuration: PostgresConfiguration, logger: Logger, _ body: (PostgresPool) async throws -> Value
    ) async throws -> Value {
        let pool = PostgresPool(configuration: configuration, logger: logger)
        do {
            let value = try await body(pool)
            await pool.shutdown()
            return value
        } catch {
            await pool.shutdown()
            throw error
        }
    }
}

/// Properties of the device that providers need.
package struct DeviceEnvironment: ParsableArguments {
    @Option(help: "The device's language, BCP 47.")
    var locale = "en-US"

    @Option(help: "The device's time zone, IANA. (default: Etc/UTC)")
    package var timeZone: String?

    package init() {}

    package func validate() throws {
        _ = try model()
    }

    package func model() throws -> WidgetEnvironment {
        do throws(ModelError) {
            return try WidgetEnvironment(locale: locale, timeZone: timeZone ?? "Etc/UTC")
        } catch {
            throw ValidationError(
                error.pointer == "/locale" ? "--locale: \(error.message)" : "--time-zone: \(error.message)")
        }
    }
}

extension Option {
    /// Creates an option whose help shows its default. The parser leaves out the defaults of options with a transform.
    package init(
        wrappedValue: Value, name: NameSpecification = .long, help: ArgumentHelp,
        transform: @escaping @Sendable (String) throws -> Value
    ) {
        var help = help
        help.abstract += " (default: \(OptionText.text(wrappedValue)))"
        self.init(
            wrappedValue: wrappedValue, name: name, parsing: .next, help: help, completion: nil, transform: transform)
    }
}

/// Conversions of options' values.
package enum OptionText {
    /// The text from which an option reads the value.
    static func text(_ value: some Any) -> String {
        switch value {
        case let duration as Duration: duration.text
        case let family as WidgetFamily: family.name
        case let configuration as WidgetConfiguration: configuration.canonical
        default: "\(value)"
        }
    }

    /// Description of times as text, for help and messages.
    package static let timeForm = "an RFC 3339 time, or one such as now-1h"

    @Sendable package static func time(_ text: String) throws -> Timestamp {
        guard let time = Timestamp(rfc3339: text) ?? relativeTime(text) else {
            throw ValidationError("\(Text.quoted(text)): expected \(timeForm)")
        }
        return time
    }

    /// `now`, `now-1h`, `now+10m`.
    private static func relativeTime(_ text: String) -> Timestamp? {
        guard text.hasPrefix("now") else { return nil }
        let distance = text.dropFirst("now".count)
        guard let sign = distance.first else { return Timestamp.now() }
        guard "+-".contains(sign), let duration = Duration(text: String(distance.dropFirst())) else { return nil }
        return sign == "+" ? Timestamp.now() + duration : Timestamp.now() - duration
    }

    /// Description of dates as text, for help and messages.
    package static let dateForm = "a date such as 2026-06-22, yesterday, today or tomorrow"

    /// A date such as `2026-06-22` in the clock's time zone; nil for a text that is not of ``dateForm``.
    package static func date(_ text: String, _ clock: LocalClock, now: Timestamp = Timestamp.now()) -> String? {
        let distances = ["yesterday": -1, "today": 0, "tomorrow": 1]
        guard let distance = distances[text] else { return clock.day(of: text).map { _ in text } }
        // Days of UTC have 24 hours each.
        return Timestamp(rfc3339: "\(clock.date(now))T00:00:00Z")
            .map { LocalClock.utc.date($0 + .seconds(86_400) * distance) }
    }

    /// A number of a range.
    package static func number<Number: LosslessStringConvertible & Comparable & Sendable>(
        _ range: ClosedRange<Number>
    ) -> @Sendable (String) throws -> Number {
        { text in
            guard let number = Number(text), range.contains(number) else {
                throw ValidationError("expected \(range.lowerBound) to \(range.upperBound)")
            }
            return number
        }
    }

    @Sendable package static func identifier(_ text: String) throws -> String {
        if let problem = Text.identifierProblem(text) { throw ValidationError(problem) }
        return text
    }

    @Sendable package static func family(_ text: String) throws -> WidgetFamily {
        guard let family = WidgetFamily(name: text) else {
            throw ValidationError("expected one of " + WidgetFamily.allCases.map(\.name).joined(separator: ", "))
        }
        return family
    }

    @Sendable package static func configuration(_ text: String) throws -> WidgetConfiguration {
        do throws(ModelError) {
            return try WidgetConfiguration(json: Array(text.utf8))
        } catch {
            throw ValidationError("\(error.pointer): \(error.message); expected a flat JSON object")
        }
    }

    @Sendable package static func json(_ text: String) throws -> JSONValue {
        do throws(JSONError) {
            return try JSONValue.parse(text)
        } catch {
            throw ValidationError("not JSON: \(error)")
        }
    }

    @Sendable package static func duration(_ text: String) throws -> Duration {
        guard let duration = Duration(text: text) else {
            throw ValidationError("\(Text.quoted(text)): expected \(Duration.textForm)")
        }
        return duration
    }
}
