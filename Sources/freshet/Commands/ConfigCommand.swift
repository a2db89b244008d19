// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import WidgetModel

struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Shows and checks the settings.",
        subcommands: [Show.self, Check.self, Keys.self])

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows every setting in force and its source.",
            discussion: """
                Checks the settings as `freshet run` does and reports all errors, with exit status 78. Secrets are never \
                printed.

                Examples:
                  freshet config show --config freshet.yaml
                  FRESHET_API_PORT=9000 freshet config show --json
                """)

        @OptionGroup var output: OutputOptions

        func run() async throws {
            output.print(
                try output.settings.load().rows.map { row in
                    ["name": .string(row.name), "value": .text(row.value), "place": .string(row.place)]
                }, columns: ["SETTING": "name", "VALUE": "value", "FROM": "place"])
        }
    }

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Checks the settings, and the files that they name, without connecting to anything.",
            discussion: """
                Reports all errors at once, with exit status 78.

                Examples:
                  freshet config check --config freshet.yaml
                  freshet config check --json
                """)

        @OptionGroup var output: OutputOptions

        func run() async throws {
            let loaded = output.settings.read(requiring: ["postgres.url", "kafka.bootstrapServers"])
            let problems = await loaded.problems + loaded.contentProblems()
            guard problems.isEmpty else { throw CommandFailure(settings: problems) }
            output.print(["valid": true], or: "the settings are valid")
        }
    }

    struct Keys: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists the settings: names, variables, defaults and allowed values.",
            discussion: """
                Examples:
                  freshet config keys
                  freshet config keys postgres.
                """)

        @Argument(help: "Only settings whose names begin with this.")
        var prefix = ""

        @Flag(help: "Print JSON.")
        var json = false

        func run() async throws {
            let keys = SettingKey.all.filter { $0.name.hasPrefix(prefix) }
            guard !keys.isEmpty else {
                let groups = SettingKey.all.compactMap { $0.name.split(separator: ".").first.map(String.init) }
                let hint = prefix.hint(among: groups + SettingKey.all.map(\.name))
                throw CommandFailure(.failure, "no setting begins with \(Text.quoted(prefix))\(hint)")
            }
            if json {
                Terminal.print(.array(keys.map(\.json)))
                return
            }
            for key in keys {
                Terminal.print("\(key.name)  (\(key.environmentName))")
                Terminal.print("    \(key.summary)")
                Terminal.print("    \(key.expectation); default: \(key.defaultText ?? "none")")
                if let file = key.fileKeyName { Terminal.print("    secret; \(file) names a file with it") }
            }
        }
    }
}

extension SettingKey {
    fileprivate var json: JSONValue {
        [
            "name": .string(name), "variable": .string(environmentName), "summary": .string(summary),
            "expectation": .string(expectation), "default": .text(defaultText),
            "secret": .bool(isSecret), "fileSetting": .text(fileKeyName),
        ]
    }
}
