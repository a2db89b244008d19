// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing
import Yams

/// The files at the top of the repository that other programs and people rely on.
@Suite(.timeLimit(.patience))
struct WorkflowTests {
    private static let repository = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: repository.appendingPathComponent(path), encoding: .utf8)
    }

    private struct Workflow: Decodable {
        struct Job: Decodable {
            struct Strategy: Decodable { let matrix: [String: [String]] }
            struct Step: Decodable {
                let uses: String?
                let run: String?
            }
            let strategy: Strategy?
            let steps: [Step]
        }
        let name: String
        let jobs: [String: Job]

        /// Commands of all jobs, with those of a matrix in place of its variable.
        var commands: [String] {
            jobs.values.flatMap { job in
                job.steps.compactMap(\.run).flatMap { run in
                    run == "${{ matrix.command }}" ? job.strategy?.matrix["command"] ?? [] : [run]
                }
            }
        }
    }

    @Test("Every step of a workflow checks out, or runs a script of the repository with options it has")
    func workflows() throws {
        let folder = Self.repository.appendingPathComponent(".github/workflows")
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".yml") }
        #expect(files.sorted() == ["nightly.yml", "test.yml"])
        for file in files {
            let workflow = try YAMLDecoder().decode(Workflow.self, from: try Self.text(".github/workflows/\(file)"))
            #expect(!workflow.commands.isEmpty)
            for step in workflow.jobs.values.flatMap(\.steps) {
                #expect(step.run != nil || step.uses?.hasPrefix("actions/checkout@") == true)
            }
            for command in workflow.commands {
                let words = command.split(separator: " ").map(String.init)
                let script = try #require(words.first).replacing(/^\.\//, with: "")
                let path = Self.repository.appendingPathComponent(script).path
                guard FileManager.default.isExecutableFile(atPath: path) else {
                    Issue.record("\(file): \(command): there is no script \(script)")
                    continue
                }
                // `demo` passes its arguments to the program, whose options DocumentedCommandsTests checks.
                let usage = try Self.text(script)
                for option in words.dropFirst() where option.hasPrefix("--") {
                    #expect(usage.contains(option), "\(file): \(script) has no option \(option)")
                }
            }
        }
    }

    @Test("Every source file states its licence")
    func licences() throws {
        var sources = 0
        for folder in ["Sources", "Tests", "Benchmarks/Sources", "Benchmarks/Benchmarks", "deploy/samples"] {
            let files = FileManager.default.enumerator(atPath: Self.repository.appendingPathComponent(folder).path)
            for case let file as String in try #require(files)
            where [".swift", ".c", ".h"].contains(where: file.hasSuffix) && !file.contains(".build/") {
                let lines = try Self.text("\(folder)/\(file)").split(separator: "\n", maxSplits: 2)
                #expect(
                    lines.prefix(2).contains { $0.hasSuffix("SPDX-License-Identifier: Apache-2.0") },
                    "\(folder)/\(file)"
                )
                sources += 1
            }
        }
        #expect(sources > 500)
    }

    @Test("The notice names every package that Freshet is built with")
    func notice() throws {
        let notice = try Self.text("NOTICE.txt")
        let packages = try Self.text("Package.swift").split(separator: "\n")
            .filter { $0.contains(".package(url:") && !$0.contains("swift-docc-plugin") }
            .compactMap { $0.split(separator: "\"").dropFirst().first?.split(separator: "/").last }
        #expect(packages.count > 15)
        for package in packages { #expect(notice.contains(package), "\(package)") }
    }
}
