// SPDX-License-Identifier: Apache-2.0

import Foundation
import KafkaClient
import TestSupport
import Testing
import WidgetEvents

@testable import FreshetClient

/// Code blocks of documents, which must equal compiled code.
enum Snippets {
    /// Regions between `// snippet: NAME` and `// snippet end`, without their indentation.
    static func regions(_ path: String) throws -> [String: String] {
        let text = try String(contentsOf: repository.appending(path: path), encoding: .utf8)
        var regions: [String: String] = [:]
        var open: (name: String, lines: [Substring])?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let content = line.trimmingPrefix { $0 == " " }
            if content.hasPrefix("// snippet: ") {
                open = (String(content.dropFirst("// snippet: ".count)), [])
            } else if content == "// snippet end", var region = open {
                while region.lines.last?.isEmpty == true { region.lines.removeLast() }
                let indent = region.lines.filter { !$0.isEmpty }.map { $0.prefix { $0 == " " }.count }.min() ?? 0
                regions[region.name] = region.lines.map { String($0.dropFirst(indent)) }.joined(separator: "\n")
                open = nil
            } else {
                open?.lines.append(line)
            }
        }
        return regions
    }

    struct Block: Hashable {
        /// Text of the preceding comment, such as `snippet: make`.
        var mark: String?
        var language: String
        var text: String
    }

    /// Fenced code blocks of a Markdown document.
    static func blocks(_ path: String) throws -> [Block] {
        let text = try String(contentsOf: repository.appending(path: path), encoding: .utf8)
        var blocks: [Block] = []
        var mark: String?
        var open: (language: String, lines: [Substring])?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if let block = open {
                if line == "```" {
                    blocks.append(
                        Block(mark: mark, language: block.language, text: block.lines.joined(separator: "\n")))
                    (open, mark) = (nil, nil)
                } else {
                    open?.lines.append(line)
                }
            } else if line.hasPrefix("```") {
                open = (String(line.dropFirst(3)), [])
            } else if line.hasPrefix("<!-- "), line.hasSuffix(" -->") {
                mark = String(line.dropFirst(5).dropLast(4))
            } else if !line.isEmpty {
                mark = nil
            }
        }
        return blocks
    }
}

@Suite(.timeLimit(.patience))
struct SnippetTests {
    private static let article = "Sources/FreshetClient/FreshetClient.docc/GettingStarted.md"

    @Test("The article's code is compiled code")
    func article() throws {
        var regions = try Snippets.regions("Tests/FreshetClientTests/Snippets/GettingStarted.swift")
        let manifest = try Snippets.regions("deploy/samples/publisher/Package.swift")
        regions.merge(manifest) { $1 }
        let blocks = try Snippets.blocks(Self.article)
        #expect(blocks.count == regions.count)
        for block in blocks where block.language == "swift" {
            let mark = try #require(block.mark, "a block without a mark: \(block.text.prefix(60))")
            let name = mark.replacing("snippet: ", with: "")
            #expect(regions[name] == block.text, "\(name)")
        }
        #expect(Set(blocks.compactMap(\.mark)).count == regions.count)
    }

    @Test("The README's Swift code is the article's")
    func readme() throws {
        let regions = try Snippets.regions("Tests/FreshetClientTests/Snippets/GettingStarted.swift")
        let marked = try Snippets.blocks("README.md").filter { $0.mark?.hasPrefix("snippet: ") == true }
        #expect(!marked.isEmpty)
        for block in marked {
            #expect(regions[String(block.mark?.dropFirst("snippet: ".count) ?? "")] == block.text)
        }
    }

    @Test("The article's code publishes the expected events")
    func behaviour() async throws {
        try await withCluster { kafka in
            let center = try GettingStarted.make(
                bootstrapServers: kafka.bootstrapServers, properties: EmbeddedKafka.clientProperties, logger: quiet)
            try await GettingStarted.widgets(center)
            try await GettingStarted.reloads(center)
            try await GettingStarted.stacks(center)
            try await GettingStarted.batch(center, viewed: [("w1", "u42"), ("w2", "u43")])
            try await GettingStarted.errors(center, logger: quiet)
            await center.shutdown()
            #expect(GettingStarted.overload("kafka:9092").backPressure == .fail)
            let received = try await kafka.received(count: 14)
            var counts: [EventType: Int] = [:]
            for event in received { counts[event.event.event.type, default: 0] += 1 }
            #expect(
                counts == [
                    .widgetPlaced: 1, .widgetViewed: 3, .widgetConfigured: 1, .deviceEnvironmentChanged: 1,
                    .widgetRemoved: 1, .pushReceived: 3, .appChanged: 1, .stackChanged: 1, .shortcutsReplaced: 1,
                    .interactionDonated: 1,
                ])
        }
    }
}
