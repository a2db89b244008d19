// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Links and paths in the documents, which must point to existing files and headings.
@Suite(.timeLimit(.patience))
struct DocumentedLinksTests {
    private static let repository = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: repository.appendingPathComponent(path), encoding: .utf8)
    }

    /// Returns the document without its code blocks.
    static func prose(of document: String) -> [Substring] {
        var isCode = false
        return document.split(separator: "\n", omittingEmptySubsequences: false).filter { line in
            let isFence = line.hasPrefix("```")
            if isFence { isCode.toggle() }
            return !isCode && !isFence
        }
    }

    /// Returns the heading anchors that Markdown renderers create.
    static func anchors(in document: String) -> Set<String> {
        Set(
            prose(of: document).filter { $0.hasPrefix("#") }.map { line in
                line.drop { $0 == "#" }.drop { $0 == " " }.lowercased()
                    .filter { $0.isLetter || $0.isNumber || $0 == "-" || $0 == " " || $0 == "_" }
                    .replacing(" ", with: "-")
            })
    }

    /// Targets of links within the repository.
    static func links(in document: String) -> [String] {
        prose(of: document).joined(separator: " ").split(separator: "](").dropFirst()
            .compactMap { rest in rest.firstIndex(of: ")").map { String(rest[..<$0]) } }
            .filter { !$0.contains("://") }
    }

    /// Repository paths in code spans, without placeholders and patterns.
    static func paths(in document: String) -> [String] {
        prose(of: document).joined(separator: " ").split(separator: "`", omittingEmptySubsequences: false).enumerated()
            .filter { $0.offset % 2 == 1 }.map { String($0.element.prefix { $0 != " " }) }
            .map { $0.hasPrefix("./") ? String($0.dropFirst(2)) : $0 }
            .filter { path in
                ["Sources/", "Tests/", "deploy/", "schemas/", "Benchmarks/"].contains { path.hasPrefix($0) }
                    && !path.contains { "*<{…".contains($0) }
            }
    }

    @Test(
        "Every link points to an existing file and heading, and every path exists",
        arguments: [
            "README.md", "DESIGN.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "Tests/README.md",
            "Benchmarks/README.md",
            "schemas/README.md", "deploy/README.md", "deploy/api.md", "deploy/capacity.md", "deploy/observe.md",
            "deploy/operations.md", "deploy/providers.md", "deploy/publishing.md", "deploy/runbook.md",
            "deploy/stacks.md",
        ])
    func documents(_ path: String) throws {
        let document = try Self.text(path)
        let folder = Self.repository.appendingPathComponent(path).deletingLastPathComponent()
        for link in Self.links(in: document) {
            let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let file =
                parts[0].isEmpty
                ? Self.repository.appendingPathComponent(path) : folder.appendingPathComponent(parts[0])
            #expect(FileManager.default.fileExists(atPath: file.path), "\(path): \(link)")
            guard parts.count == 2, file.pathExtension == "md" else { continue }
            let anchors = Self.anchors(in: try String(contentsOf: file, encoding: .utf8))
            #expect(anchors.contains(parts[1]), "\(path): \(link)")
        }
        for name in Self.paths(in: document) {
            let file = Self.repository.appendingPathComponent(name)
            #expect(FileManager.default.fileExists(atPath: file.path), "\(path): \(name)")
        }
    }

    /// CONTRIBUTING.md lists the functions of the two ways. A reader follows them, so each must be in a file that its
    /// step names, and the list says how long it is.
    @Test("The ways through the code name functions that exist", arguments: ["reload through", "`GET` of"])
    func ways(title: String) throws {
        let sources = FileManager.default.enumerator(atPath: Self.repository.appendingPathComponent("Sources").path)
        let files = try #require(sources).compactMap { ($0 as? String).map { "Sources/\($0)" } }
        let document = try Self.text("CONTRIBUTING.md")
        let start = try #require(document.range(of: "## The way of a \(title)"))
        let rest = document[start.upperBound...]
        let section = rest[..<(rest.range(of: "\n## ")?.lowerBound ?? rest.endIndex)]
        var (functions, used) = (0, Set<String>())
        for step in section.split(separator: /\n(?=[0-9]+\. )/).dropFirst() {
            let names = step.prefix(upTo: step.range(of: "\n\n")?.lowerBound ?? step.endIndex)
                .matches(of: /`([^`]+)`/).map { String($0.1) }.filter {
                    !$0.hasPrefix("Sources/") || $0.hasSuffix(".swift")
                }
            var code = ""
            for name in names {
                if name.hasSuffix(".swift") {
                    let found = files.filter { $0 == name || $0.hasSuffix("/\(name)") }
                    #expect(found.count == 1, "\(name): \(found)")
                    used.formUnion(found)
                    code = try found.map(Self.text).joined()
                    continue
                }
                // A type without a function.
                if name.first?.isUppercase == true, !name.contains(".") { continue }
                functions += 1
                let member = name.prefix { $0 != "(" }.split(separator: ".").last.map(String.init) ?? name
                let declarations = member == "init" ? ["init("] : ["func \(member)", "var \(member)", "let \(member)"]
                #expect(declarations.contains { code.contains($0) }, "\(step.prefix(40)): \(name)")
            }
        }
        #expect(section.contains("\(functions) functions in \(used.count) files"), "\(functions) in \(used.count)")
    }

    @Test("Links, anchors and paths are recognised")
    func recognition() {
        let document = "# A b: `c_d`\n[x](y.md#z), `Sources/a` and `deploy/*.md`\n```\n# no\n[n](o)\n```\n"
        #expect(Self.anchors(in: document) == ["a-b-c_d"])
        #expect(Self.links(in: document) == ["y.md#z"])
        #expect(Self.paths(in: document) == ["Sources/a"])
    }
}
