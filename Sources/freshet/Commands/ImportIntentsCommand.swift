import ArgumentParser
import Foundation
import FreshetService
import WidgetModel

extension KindsCommand {
    struct ImportIntents: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "import-intents",
            abstract:
                "Turns an intent definition file of Xcode into the part of a manifest that defines configurations.",
            discussion: """
                Prints a kind for each custom intent, with its name and its intent, as YAML. Move each intent to the kind \
                that it configures. Parts without an equivalent are reported on standard error.

                A parameter with dynamic options and without a default gets dynamicDefault; remove it if the app's \
                extension provides no default.

                Strings files are named by the locale of their folder, such as de.lproj/Intents.strings.

                Examples:
                  freshet kinds import-intents Base.lproj/Intents.intentdefinition
                  freshet kinds import-intents Intents.intentdefinition --strings de.lproj/Intents.strings --json
                """)

        /// Larger than any file that Xcode writes.
        private static let maximumBytes = 16_777_216

        @Argument(help: "The intent definition file.")
        var file: String

        @Option(parsing: .upToNextOption, help: "Translations: a file of a locale, such as de.lproj/Intents.strings.")
        var strings: [String] = []

        @Flag(help: "Print JSON.")
        var json = false

        func run() async throws {
            var tables: [String: [UInt8]] = [:]
            for path in strings {
                let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
                guard folder.pathExtension == "lproj" else {
                    throw CommandFailure(.failure, "\(path): expected a folder such as de.lproj")
                }
                tables[folder.deletingPathExtension().lastPathComponent] = try BoundedFile.bytes(
                    path: path, maximumBytes: Self.maximumBytes)
            }
            let intents = try XcodeIntents(
                try BoundedFile.bytes(path: file, maximumBytes: Self.maximumBytes), strings: tables)
            for notice in intents.notices { Terminal.complain("\(file): \(notice)") }
            if json { Terminal.print(intents.json) } else { Terminal.print(try YAMLText.write(intents.json)) }
        }
    }
}
