// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing

@testable import FreshetService

extension ScriptTests {
    /// What `freshet init` writes, and the document about it.
    @Suite("freshet init")
    struct InitTests {
        private static func file(_ path: String) throws -> String {
            try String(contentsOfFile: try #require(Repository.path(path)), encoding: .utf8)
        }

        /// Lends an empty folder's path.
        private static func withFolder(_ body: (String) async throws -> Void) async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "freshet-init-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: folder) }
            try await body(folder.path)
        }

        /// Starts a provider that `init` wrote.
        private static func start(_ language: String, in folder: String) throws -> Process {
            let process = Process()
            if language == "python" {
                process.executableURL = URL(filePath: "/usr/bin/env")
                process.arguments = ["python3", "\(folder)/provider.py"]
            } else {
                // The program of the same source.
                process.executableURL = try BuiltProgram.find("init-provider")
                process.arguments = [folder]
            }
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.runAndCloseFiles()
            return process
        }

        /// Expects the package manager to read the package.
        private static func expectPackage(in folder: String) async throws {
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = ["swift", "package", "--package-path", folder, "dump-package"]
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.runAndCloseFiles()
            try await eventually("the package is read") { !process.isRunning }
            #expect(process.terminationStatus == 0)
        }

        @Test(
            "Its providers check signatures and keep the contract: lint has at most notes",
            arguments: ["python", "swift"])
        func providers(_ language: String) async throws {
            try await Self.withFolder { folder in
                let written = try await FreshetProcess.run(["init", folder, "--language", language])
                #expect(written.status == 0, "\(written.err)")
                let secret = try FileManager.default.attributesOfItem(atPath: "\(folder)/provider.secret")
                #expect(secret[.posixPermissions] as? Int == 0o600)
                if language == "swift" { try await Self.expectPackage(in: folder) }
                let process = try Self.start(language, in: folder)
                defer { process.terminate() }
                // It listens a moment after its start, and a busy machine may exceed a time limit.
                var lint = (status: Int32(-1), out: "", err: "")
                try await eventually("lint has at most notes") {
                    lint = try await FreshetProcess.run(
                        ["lint", "--manifest", "\(folder)/kinds.yaml", "--format", "json"])
                    return lint.status == 0
                }
                // Signatures were checked: `signature/…` is not among the rules that could not be.
                let unchecked = try #require(try JSONValue.parse(lint.out)["notChecked"])
                #expect(!String(decoding: unchecked.encoded, as: UTF8.self).contains("signature/"), "\(unchecked)")
            }
        }

        @Test("It replaces no files, and refuses a name that no manifest takes")
        func refusals() async throws {
            try await Self.withFolder { folder in
                let first = try await FreshetProcess.run(["init", folder, "--app", "com.example.own"])
                #expect(first.status == 0, "\(first.err)")
                let manifest = try String(contentsOfFile: "\(folder)/kinds.yaml", encoding: .utf8)
                #expect(manifest.hasPrefix("app: com.example.own\n"))
                let again = try await FreshetProcess.run(["init", folder])
                #expect(again.status == 1 && again.err.contains("exists already"), "\(again.err)")
                let name = try await FreshetProcess.run(["init", "\(folder)/new", "--app", "a: b"])
                #expect(name.status == 64 && name.err.contains("com.example.hello"), "\(name.err)")
                #expect(!FileManager.default.fileExists(atPath: "\(folder)/new"))
            }
        }

        @Test("The document shows the files as they are written, of at most 10 and about 50 lines")
        func documented() throws {
            let document = try Self.file("deploy/first-widget.md")
            for (name, lines) in [("kinds.yaml", 10), ("provider.py", 54), ("Provider.swift", 72)] {
                let text = try Self.file("Sources/freshet/Init/Templates/\(name)")
                    .replacing("// SPDX-License-Identifier: Apache-2.0\n\n", with: "")
                #expect(document.contains("\n\(text)```"), "\(name)")
                #expect(text.split(separator: "\n").count <= lines, "\(name)")
            }
        }
    }
}
