import Foundation
package import Logging
import ReloadWorkers
import Tracing
import WidgetModel

extension LogSettings {
    /// A logger to standard error.
    package func logger(label: String = "freshet") -> Logger {
        var logger: Logger
        switch format {
        case .text:
            logger = Logger(label: label) { label in
                var handler = TextLogHandler(label: label)
                handler.metadataProvider = .traceContext
                return handler
            }
        case .json:
            logger = Logger(label: label) { label in
                var handler = JSONLogHandler(label: label)
                handler.metadataProvider = .traceContext
                return handler
            }
        }
        logger.logLevel = level.level
        return logger
    }

    /// For commands that do one thing and end: what goes wrong is their own message, once.
    package static var ofCommands: Logger {
        LogSettings(level: .critical, format: .text).logger()
    }
}

extension Logger.MetadataProvider {
    /// The trace that the work at hand belongs to, if any.
    static let traceContext = Logger.MetadataProvider {
        guard let parent = ServiceContext.current?.traceParent else { return [:] }
        return ["trace_id": "\(parent.traceID)", "span_id": "\(parent.spanID)"]
    }
}

extension LogLevel {
    package var level: Logger.Level {
        switch self {
        case .trace: .trace
        case .debug: .debug
        case .info: .info
        case .notice: .notice
        case .warning: .warning
        case .error: .error
        case .critical: .critical
        }
    }
}

/// Writes each message as one line of JSON to standard error.
struct JSONLogHandler: LogHandler {
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    var logLevel: Logger.Level = .info
    private let label: String
    private let now: @Sendable () -> Timestamp
    private let write: @Sendable (String) -> Void

    init(
        label: String, now: @escaping @Sendable () -> Timestamp = WallClock.now,
        write: @escaping @Sendable (String) -> Void = { Terminal.complain($0) }
    ) {
        self.label = label
        self.now = now
        self.write = write
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var object = JSONObject()
        object["time"] = .string(now().rfc3339)
        object["level"] = .string(event.level.rawValue)
        object["logger"] = .string(label)
        object["source"] = .string(event.source)
        object["message"] = .string("\(event.message)")
        if let error = event.error { object["error"] = .string("\(error)") }
        var values = metadata
        values.merge(metadataProvider?.get() ?? [:]) { $1 }
        values.merge(event.metadata ?? [:]) { $1 }
        for (key, value) in values.sorted(by: { $0.key < $1.key }) {
            // What the line itself says is not overwritten.
            object[object[key] == nil ? key : "metadata.\(key)"] = Self.json(value)
        }
        write(String(decoding: JSONValue.object(object).encoded, as: UTF8.self))
    }

    private static func json(_ value: Logger.Metadata.Value) -> JSONValue {
        switch value {
        case .string(let text): return .string(text)
        case .stringConvertible(let value): return .string("\(value)")
        case .array(let values): return .array(values.map(json))
        case .dictionary(let values):
            let members = values.sorted { $0.key < $1.key }.map {
                JSONObject.Member(key: $0.key, value: json($0.value))
            }
            return .object(JSONObject(members))
        }
    }
}
