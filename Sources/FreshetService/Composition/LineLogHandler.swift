// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
package import Logging
import ReloadWorkers
import Tracing
import WidgetModel

extension Settings {
    package func logger(label: String = "freshet") -> Logger { Logger(label: label, logLevel, logFormat) }
}

extension Logger {
    fileprivate init(label: String, _ level: Level, _ format: LogFormat) {
        self.init(label: label) { LineLogHandler(format: format, label: $0, metadataProvider: .traceContext) }
        logLevel = level
    }

    /// Logger of short-lived commands, which report errors themselves.
    package static var ofCommands: Logger { Logger(label: "freshet", .critical, .text) }
}

extension Logger.MetadataProvider {
    /// Trace context of the current task, if any.
    static let traceContext = Logger.MetadataProvider {
        guard let parent = ServiceContext.current?.traceParent else { return [:] }
        return ["trace_id": "\(parent.traceID)", "span_id": "\(parent.spanID)"]
    }
}

/// Writes each message as one line to standard error.
///
/// As text: time, level, label, metadata, source and message. Every value is quoted and escaped, so that no value, such
/// as a token's subject, can look like a field or a line of its own.
struct LineLogHandler: LogHandler {
    let format: LogFormat
    let label: String
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    var logLevel: Logger.Level = .info
    var now: @Sendable () -> Timestamp = Timestamp.now
    var write: @Sendable (String) -> Void = { Terminal.complain($0) }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var values = metadata
        values.merge(metadataProvider?.get() ?? [:]) { $1 }
        values.merge(event.metadata ?? [:]) { $1 }
        let sorted = values.sorted { $0.key < $1.key }
        switch format {
        case .text: write(text(event, sorted))
        case .json: write(String(decoding: json(event, sorted).encoded, as: UTF8.self))
        }
    }

    private func text(_ event: LogEvent, _ values: [(key: String, value: Logger.Metadata.Value)]) -> String {
        let error = event.error.map { [(key: "error", value: Logger.Metadata.Value.string("\($0)"))] } ?? []
        let fields = (values + error).map { key, value in
            let isPlain = key.wholeMatch(of: /[A-Za-z0-9_.-]+/) != nil
            return "\(isPlain ? key : Text.quoted(key, maximum: .max))=\(Text.quoted("\(value)", maximum: .max)) "
        }
        let message = Text.oneLine("\(event.message)")
        return "\(now().rfc3339) \(event.level) \(label): \(fields.joined())[\(event.source)] \(message)"
    }

    private func json(_ event: LogEvent, _ values: [(key: String, value: Logger.Metadata.Value)]) -> JSONValue {
        var object = JSONObject()
        object["time"] = .string(now().rfc3339)
        object["level"] = .string(event.level.rawValue)
        object["logger"] = .string(label)
        object["source"] = .string(event.source)
        object["message"] = .string("\(event.message)")
        if let error = event.error { object["error"] = .string("\(error)") }
        for (key, value) in values {
            // The line's own members are not overwritten.
            object[object[key] == nil ? key : "metadata.\(key)"] = Self.json(value)
        }
        return .object(object)
    }

    private static func json(_ value: Logger.Metadata.Value) -> JSONValue {
        switch value {
        case .string(let text): return .string(text)
        case .stringConvertible(let value): return .string("\(value)")
        case .array(let values): return .array(values.map(json))
        case .dictionary(let values):
            let members = values.sorted { $0.key < $1.key }.map {
                (key: $0.key, value: json($0.value))
            }
            return .object(JSONObject(members))
        }
    }
}
