// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import WidgetModel

/// Writes a manifest and a provider to begin with.
struct InitCommand: AsyncParsableCommand {
    enum Language: String, CaseIterable, ExpressibleByArgument {
        case python, swift
    }

    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Writes a manifest and a provider for a first widget of your own.",
        discussion: """
            Writes a folder with a manifest of one kind (kinds.yaml), a provider that checks signatures, a new signing \
            secret (provider.secret, for its owner alone), and the text that the widget shows (greeting.txt). The Python \
            provider needs nothing but Python 3.9. deploy/first-widget.md goes on from there.

            Examples:
              freshet init hello
              freshet init hello --language swift --app com.example.hello --port 8092
            """)

    @Argument(help: "The folder, which must not exist or be empty.", completion: .directory)
    var folder: String

    @Option(help: "The app's bundle identifier.", transform: OptionText.identifier)
    var app = "com.example.hello"

    @Option(help: "Language of the provider: python or swift.")
    var language = Language.python

    @Option(help: "Port that the provider listens on.", transform: OptionText.number(1...65_535))
    var port = 8_092

    func run() async throws {
        let files = try files()
        let root = URL(fileURLWithPath: folder, isDirectory: true)
        let manager = FileManager.default
        guard (try? manager.contentsOfDirectory(atPath: root.path))?.isEmpty ?? !manager.fileExists(atPath: root.path)
        else { throw CommandFailure(.failure, "\(folder) exists already: expected a new or an empty folder") }
        for (name, text) in files {
            let file = root.appendingPathComponent(name)
            do {
                try manager.createDirectory(
                    at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            } catch {
                throw CommandFailure(.failure, "cannot create \(file.deletingLastPathComponent().path): \(error)")
            }
            let mode = name == Self.secret ? 0o600 : 0o644
            guard
                manager.createFile(atPath: file.path, contents: Data(text.utf8), attributes: [.posixPermissions: mode])
            else { throw CommandFailure(.failure, "cannot write \(file.path)") }
        }
        Terminal.print("wrote " + files.map { "\(folder)/\($0.name)" }.joined(separator: ", "))
        Terminal.print("next:")
        let start = language == .python ? "python3 \(folder)/provider.py &" : "(cd \(folder) && swift run) &"
        for line in [start, "freshet lint --manifest \(folder)/kinds.yaml"] { Terminal.print("  \(line)") }
    }

    private static let secret = "provider.secret"

    /// The files' texts by their paths in the folder.
    private func files() throws -> [(name: String, text: String)] {
        func text(_ template: [UInt8]) -> String {
            String(decoding: template, as: UTF8.self).replacing("8092", with: "\(port)")
        }
        let manifest = text(PackageResources.kinds_yaml).replacing("com.example.hello", with: app)
        // An app may have a name that YAML, or a manifest, does not take.
        guard
            let read = try? Manifest.read(text: manifest, file: "kinds.yaml", followsSecrets: false),
            read.map(\.definition.name) == [app]
        else { throw CommandFailure(.usage, "--app \(Text.quoted(app)): expected a name such as com.example.hello") }
        var files = [
            ("kinds.yaml", manifest), (Self.secret, SigningSecret.random().exposed + "\n"), ("greeting.txt", "Hello\n"),
        ]
        switch language {
        case .python: files.append(("provider.py", text(PackageResources.provider_py)))
        case .swift:
            // The licence of this repository is not that of the new program.
            let source = text(PackageResources.Provider_swift)
                .replacing("// SPDX-License-Identifier: Apache-2.0\n\n", with: "")
            files += [
                ("Package.swift", text(PackageResources.package_txt)), ("Sources/provider/Provider.swift", source),
            ]
        }
        return files
    }
}
