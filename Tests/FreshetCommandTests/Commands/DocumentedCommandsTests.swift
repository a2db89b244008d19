import ArgumentParser
import Foundation
import TestSupport
import Testing

@testable import freshet

/// Commands, options, settings and alerts that the documents name: all of them exist.
@Suite(.timeLimit(.patience))
struct DocumentedCommandsTests {
    private static let repository = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: repository.appendingPathComponent(path), encoding: .utf8)
    }

    /// The commands in a document: lines of its blocks of code, and what stands between backquotes.
    static func commands(in document: String) -> [String] {
        var commands: [String] = []
        var isBlock = false
        var continued = ""
        // What stands between backquotes may go over a line's end, but not over a paragraph's.
        var paragraph = ""
        func endParagraph() {
            let spans = paragraph.split(separator: "`", omittingEmptySubsequences: false).enumerated()
                .filter { $0.offset % 2 == 1 }
            commands += spans.map { String($0.element) }.filter { $0.hasPrefix("freshet ") }
            paragraph = ""
        }
        for line in document.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            let isFence = line.trimmingCharacters(in: .whitespaces).hasPrefix("```")
            if isFence { isBlock.toggle() }
            if isFence || line.isEmpty { endParagraph() }
            guard isBlock, !isFence else {
                if !isFence { paragraph += line + " " }
                continue
            }
            if line.hasSuffix("\\") {
                continued += line.dropLast() + " "
                continue
            }
            let whole = continued + line
            continued = ""
            // After a pipe, in a container, with variables before it: from the word on.
            let code = whole.firstRange(of: " # ").map { String(whole[..<$0.lowerBound]) } ?? whole
            for part in code.split(separator: "|") {
                let words = part.split(whereSeparator: \.isWhitespace)
                guard let start = words.firstIndex(where: { $0 == "freshet" || $0.hasSuffix("/freshet") }),
                    words[..<start].allSatisfy({ $0.contains("=") || $0 == "$" || $0 == "sudo" })
                else { continue }
                commands.append((["freshet"] + words[(start + 1)...].map(String.init)).joined(separator: " "))
            }
        }
        endParagraph()
        return commands
    }

    /// What is wrong with a command; nil when it can be typed.
    static func problem(with text: String) -> String? {
        var type: any ParsableCommand.Type = Freshet.self
        let words = text.split(whereSeparator: \.isWhitespace).dropFirst()
            .map { $0.trimmingCharacters(in: CharacterSet(charactersIn: "[](),;")) }
            .filter { !$0.isEmpty }
        var isPath = true
        var path = "freshet"
        for word in words {
            if word == "…" || word == "..." { isPath = false }
            if word.hasPrefix("-") {
                isPath = false
                let option = String(word.prefix { $0 != "=" })
                guard option.hasPrefix("--"), option.count > 2 else { continue }
                let known = Freshet.helpMessage(for: type).split { !($0.isLetter || $0 == "-" || $0.isNumber) }
                let common = ["--help", "--version", "--generate-completion-script"]
                if !known.contains(where: { $0 == option }), !common.contains(option) {
                    return "\(path) has no option \(option)"
                }
            } else if isPath {
                if let next = type.configuration.subcommands.first(where: { $0._commandName == word }) {
                    type = next
                    path += " \(word)"
                } else if !type.configuration.subcommands.isEmpty {
                    return "\(path) has no command \(word)"
                } else {
                    isPath = false
                }
            }
        }
        return nil
    }

    @Test(
        "every command in the documents is there, with its options",
        arguments: [
            "deploy/runbook.md", "deploy/README.md", "deploy/api.md", "deploy/observe.md", "README.md",
            "deploy/capacity.md", "deploy/operations.md", "deploy/providers.md", "deploy/publishing.md",
            "CONTRIBUTING.md",
        ])
    func documents(_ path: String) throws {
        let commands = Self.commands(in: try Self.text(path))
        #expect(!commands.isEmpty)
        for command in commands {
            let problem = Self.problem(with: command)
            #expect(problem == nil, "\(path): \(command)")
        }
    }

    @Test("the check notices what is not there")
    func canFail() {
        #expect(Self.problem(with: "freshet explain --app A W") == nil)
        #expect(Self.problem(with: "freshet dead-letters replay --app A --rate 500") == nil)
        #expect(Self.problem(with: "freshet explian --app A") == "freshet has no command explian")
        #expect(Self.problem(with: "freshet explain --ap A") == "freshet explain has no option --ap")
        #expect(Self.problem(with: "freshet positions reset") == "freshet positions has no command reset")
        let found = Self.commands(
            in: "Use `freshet a b` and `x`.\n```sh\nX=1 freshet c \\\n  --d | kcat\nload e\n```\n")
        #expect(found == ["freshet a b", "freshet c --d"])
    }

    @Test(
        "every setting that the documents name is one",
        arguments: [
            "deploy/runbook.md", "deploy/README.md", "deploy/operations.md", "deploy/providers.md",
            "deploy/publishing.md", "deploy/observe.md", "deploy/api.md",
        ])
    func settings(_ path: String) throws {
        let groups = Set(SettingKey.knownNames.compactMap { $0.split(separator: ".").first.map(String.init) })
        let spans = try Self.text(path).split(separator: "`", omittingEmptySubsequences: false).enumerated()
            .filter { $0.offset % 2 == 1 }.map { String($0.element) }
        for span in spans {
            let name = String(span.prefix { $0 != "=" && $0 != ":" })
            let parts = name.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 2, groups.contains(String(parts[0])),
                !["yaml", "sql", "properties"].contains(parts[1]),
                parts[1].allSatisfy({ $0.isLetter })
            else { continue }
            #expect(SettingKey.knownNames.contains(name), "\(path): \(name)")
        }
    }

    @Test("every alert leads to a heading of the runbook")
    func alerts() throws {
        let headings = Set(
            try Self.text("deploy/runbook.md").split(separator: "\n").filter { $0.hasPrefix("#") }
                .map { $0.drop { $0 == "#" || $0 == " " }.lowercased() })
        let file = "deploy/prometheus/rules.yaml"
        guard FileManager.default.fileExists(atPath: Self.repository.appendingPathComponent(file).path) else { return }
        let anchors = try Self.text(file).split(separator: "\n").compactMap { line -> String? in
            line.firstRange(of: "runbook.md#").map { range in
                String(line[range.upperBound...].prefix { $0.isLetter || $0.isNumber || $0 == "-" })
            }
        }
        for anchor in anchors { #expect(headings.contains(anchor), "\(anchor)") }
    }

    @Test(
        "settings files of the deployments hold settings that there are",
        arguments: [
            "deploy/kubernetes/base/freshet.yaml", "deploy/compose/freshet.yaml", "deploy/samples/freshet.yaml",
        ])
    func settingsFiles(_ path: String) throws {
        let file = SettingsFile(path: Self.repository.appendingPathComponent(path).path)
        #expect(file.problems.isEmpty)
        #expect(!file.values.isEmpty)
    }
}
