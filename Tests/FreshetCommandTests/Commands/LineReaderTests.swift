import Foundation
import TestSupport
import Testing

@testable import FreshetService
@testable import freshet

@Suite(.timeLimit(.patience))
struct LineReaderTests {
    /// The lines of a pipe that `write` fills.
    private func lines(
        maximumBytes: Int = 100, _ write: @escaping @Sendable (FileHandle) throws -> Void
    ) async throws -> [LineReader.Line] {
        let pipe = Pipe()
        let reader = LineReader(pipe.fileHandleForReading, name: "the pipe", maximumBytes: maximumBytes)
        let writer = pipe.fileHandleForWriting
        // A thread of its own: a full pipe blocks it until the lines are read.
        let thread = Thread {
            try? write(writer)
            try? writer.close()
        }
        thread.start()
        var lines: [LineReader.Line] = []
        for try await line in reader { lines.append(line) }
        return lines
    }

    private func texts(_ input: String, maximumBytes: Int = 100) async throws -> [String?] {
        let lines = try await lines(maximumBytes: maximumBytes) { try $0.write(contentsOf: Data(input.utf8)) }
        #expect(lines.map(\.number) == Array(1...max(1, lines.count)).prefix(lines.count).map { $0 })
        return lines.map { $0.bytes.map { String(decoding: $0, as: UTF8.self) } }
    }

    @Test(
        "lines are those between line ends; the last needs none",
        arguments: [
            ("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\nb", ["a", "b"]), ("a\r\nb\r\n", ["a", "b"]),
            ("\n\na", ["", "", "a"]), ("ü\n", ["ü"]),
        ])
    func splitting(_ input: String, _ expected: [String]) async throws {
        #expect(try await texts(input) == expected)
    }

    @Test("a line that is too long is passed over without being kept, and the next is read")
    func tooLong() async throws {
        let exact = String(repeating: "x", count: 100)
        #expect(try await texts("\(exact)\n\(exact)x\nok") == [exact, nil, "ok"])
        let huge = String(repeating: "y", count: 300_000)
        #expect(try await texts("a\n\(huge)\nb\n\(huge)") == ["a", nil, "b", nil])
    }

    @Test("lines come as they are written, in whatever pieces")
    func pieces() async throws {
        let input = (0..<500).map { "line \($0)" }.joined(separator: "\n")
        let lines = try await lines { writer in
            for byte in input.utf8 { try writer.write(contentsOf: Data([byte])) }
        }
        #expect(lines.count == 500)
        #expect(lines.last == LineReader.Line(number: 500, bytes: Array("line 499".utf8)))
    }

    @Test("a file that is not there is told with its name, and so is one that cannot be read")
    func unreadable() async throws {
        #expect { try LineReader.open("/no/such/file.jsonl", maximumBytes: 10) } throws: { error in
            guard let failure = error as? CommandFailure else { return false }
            return failure.status == .failure && failure.message.contains("/no/such/file.jsonl")
        }
        let folder = try LineReader.open("/", maximumBytes: 10)
        await #expect(throws: CommandFailure.self) {
            for try await _ in folder {}
        }
    }
}
