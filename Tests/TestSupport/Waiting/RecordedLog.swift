package import Logging
import Synchronization

/// Keeps what is logged at `warning` and above.
package final class RecordedLog: Sendable {
    private let lines = Mutex<[String]>([])

    package init() {}

    package var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }

    package func count(of message: String) -> Int {
        lines.withLock { $0.count { $0.contains(message) } }
    }

    private struct Handler: LogHandler {
        let log: RecordedLog
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.warning

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let line = "\(event.message) \(event.metadata.map { "\($0)" } ?? "")"
            log.lines.withLock { $0.append(line) }
        }
    }
}
