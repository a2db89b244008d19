// SPDX-License-Identifier: Apache-2.0

package import Logging
import Synchronization

/// A log handler that records messages and lets tests wait for them.
package final class RecordedLog: Sendable {
    package struct Line: Sendable, CustomStringConvertible {
        package let level: Logger.Level
        package let text: String
        package let metadata: Logger.Metadata

        package var description: String { "\(text) \(metadata)" }
    }

    private struct State {
        var lines: [Line] = []
        /// Number of lines that ``next(where:)`` has consumed.
        var passed = 0
    }

    private let state = Mutex(State())
    private let level: Logger.Level

    /// - Parameter level: Lowest recorded level.
    package init(level: Logger.Level = .trace) {
        self.level = level
    }

    package var logger: Logger { Logger(label: "test") { _ in Handler(log: self, logLevel: self.level) } }

    package var lines: [Line] { state.withLock { $0.lines } }

    /// Returns the number of lines that contain the text in their message or metadata.
    package func count(of text: String) -> Int {
        lines.count { $0.description.contains(text) }
    }

    /// Waits for the next matching line after the last one returned.
    @discardableResult
    package func next(where fits: (Line) -> Bool) async throws -> Line {
        var found: Line?
        try await eventually("a matching log line; so far: \(lines.suffix(20))") {
            found = state.withLock { state in
                while state.passed < state.lines.count {
                    let line = state.lines[state.passed]
                    state.passed += 1
                    if fits(line) { return line }
                }
                return nil
            }
            return found != nil
        }
        return found ?? Line(level: .critical, text: "", metadata: [:])
    }

    /// Waits for the next line with this message.
    package func next(_ text: String) async throws {
        try await next { $0.text == text }
    }

    private struct Handler: LogHandler {
        let log: RecordedLog
        var metadata: Logger.Metadata = [:]
        var logLevel: Logger.Level

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let line = Line(
                level: event.level, text: "\(event.message)", metadata: metadata.merging(event.metadata ?? [:]) { $1 })
            log.state.withLock { $0.lines.append(line) }
        }
    }
}
