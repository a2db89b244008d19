// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetService
import TestSupport
import Testing

@Suite(.timeLimit(.patience))
struct LineReaderTests {
    /// Numbers and texts of a file's lines, and messages about refused lines.
    private func read(
        _ input: String, maximumBytes: Int = 100, chunk: Int = 500
    ) async throws -> (lines: [(line: Int, value: String)], refused: [String]) {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("lines-\(UUID().uuidString)")
        try Data(input.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var lines: [(line: Int, value: String)] = []
        var refused: [String] = []
        let count = try await LineReader(file.path, maximumBytes: maximumBytes).chunks(
            of: chunk, decode: { String(decoding: $0, as: UTF8.self) }, complain: { refused.append($0) },
            handle: { chunk in
                lines += chunk
                return true
            })
        #expect(count == refused.count)
        return (lines, refused)
    }

    @Test(
        "Lines are split at line ends; blank lines are skipped, and the last needs no line end",
        arguments: [
            ("", []), ("\n", []), ("a", ["1 a"]), ("a\n", ["1 a"]), ("a\nb", ["1 a", "2 b"]),
            ("a\r\nb\r\n", ["1 a", "2 b"]), ("\n \na", ["3 a"]), ("ü\n", ["1 ü"]),
        ])
    func splitting(_ input: String, _ expected: [String]) async throws {
        #expect(try await read(input).lines.map { "\($0.line) \($0.value)" } == expected)
        #expect(try await read(input, chunk: 1).lines.map { "\($0.line) \($0.value)" } == expected)
    }

    @Test("A line that is too long is refused, and reading continues with the next")
    func tooLong() async throws {
        let exact = String(repeating: "x", count: 100)
        let outcome = try await read("\(exact)\n\(exact)\r\n\(exact)x\nok")
        #expect(outcome.lines.map(\.value) == [exact, exact, "ok"])
        #expect(outcome.refused == ["line 3: longer than 100 bytes"])
        let huge = String(repeating: "y", count: 300_000)
        let rest = try await read("a\n\(huge)\nb\n\(huge)")
        #expect(rest.lines.map(\.value) == ["a", "b"] && rest.refused.count == 2)
    }

    @Test("Reading ends when the handler of a chunk returns false")
    func stopping() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("lines-\(UUID().uuidString)")
        try Data("a\nb\nc\nd".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var chunks = 0
        _ = try await LineReader(file.path, maximumBytes: 10).chunks(
            of: 2, decode: { $0 }, complain: { _ in },
            handle: { _ in
                chunks += 1
                return false
            })
        #expect(chunks == 1)
    }

    @Test("Errors contain the file's name")
    func unreadable() async throws {
        #expect { try LineReader("/no/such/file.jsonl", maximumBytes: 10) } throws: { error in
            guard let failure = error as? CommandFailure else { return false }
            return failure.status == .failure && failure.message.contains("/no/such/file.jsonl")
        }
        await #expect(throws: CommandFailure.self) {
            _ = try await LineReader("/", maximumBytes: 10).chunks(
                of: 1, decode: { $0 }, complain: { _ in }, handle: { _ in true })
        }
    }
}
