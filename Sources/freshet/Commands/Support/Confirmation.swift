import Foundation
import FreshetService

enum Confirmation {
    /// - Parameters:
    ///   - what: the action, such as "erasing".
    ///   - question: question to answer with yes or no.
    ///   - refusal: message if the answer is no.
    /// - Throws: `CommandFailure` if the answer is no or nobody can be asked.
    static func ask(_ what: String, question: String, refusal: String) async throws {
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(.usage, "\(what) cannot be undone: give --yes when nobody can be asked")
        }
        Terminal.complain("\(question) This cannot be undone. [y/N]")
        let lines = LineReader(.standardInput, name: "standard input", maximumBytes: 1_024)
        var iterator = lines.makeAsyncIterator()
        let answer = try await iterator.next()?.bytes.map { String(decoding: $0, as: UTF8.self) } ?? ""
        guard ["y", "yes"].contains(answer.lowercased()) else { throw CommandFailure(.failure, refusal) }
    }
}
