// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Tables of rules in `Tests/README.md`, whose tests must exist.
@Suite(.timeLimit(.patience))
struct DocumentedRulesTests {
    private static let tests = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// Sources of all tests except this one.
    private static func sources() throws -> [String] {
        let files = FileManager.default.enumerator(at: tests, includingPropertiesForKeys: nil)
        return try (files?.compactMap { $0 as? URL } ?? [])
            .filter { $0.pathExtension == "swift" && $0.path != #filePath }
            .map { try String(contentsOf: $0, encoding: .utf8) }
    }

    @Test("Every rule in the tables has a test that cites it")
    func rules() throws {
        let document = try String(contentsOf: Self.tests.appendingPathComponent("README.md"), encoding: .utf8)
        let counts = ["A": 2, "C": 1, "D": 21, "E": 17, "F": 18, "G": 2]
        let rows = document.split(separator: "\n").filter { row in
            counts.keys.contains { row.hasPrefix("| \($0): ") }
        }
        for (letter, count) in counts {
            #expect(rows.count { $0.hasPrefix("| \(letter): ") } == count, "\(letter)")
        }
        let sources = try Self.sources()
        for row in rows {
            let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            let titles = (cells.last ?? "").split(separator: "\"; \"").map {
                $0.trimmingCharacters(in: CharacterSet(charactersIn: "\""))
            }
            #expect(cells.count == 2 && !titles.isEmpty, "\(row)")
            for title in titles {
                #expect(title.hasPrefix(row.dropFirst(2).prefix(3)), "\(title)")
                #expect(sources.contains { $0.contains("\"\(title)\"") }, "no test is titled: \(title)")
            }
        }
    }
}
