import Logging
import WidgetModel

/// Writes each message as one line of text to standard error: time, level, label, metadata, source and message.
///
/// Every value is quoted and escaped, so that no value, such as a token's subject, can look like a field or a line of its
/// own.
struct TextLogHandler: LogHandler {
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
        var values = metadata
        values.merge(metadataProvider?.get() ?? [:]) { $1 }
        values.merge(event.metadata ?? [:]) { $1 }
        if let error = event.error { values["error"] = "\(error)" }
        let fields = values.sorted { $0.key < $1.key }.map { key, value in
            "\(Self.isPlain(key) ? key : Text.quoted(key, maximum: .max))=\(Text.quoted("\(value)", maximum: .max)) "
        }
        let message = Text.oneLine("\(event.message)")
        write("\(now().rfc3339) \(event.level) \(label): \(fields.joined())[\(event.source)] \(message)")
    }

    private static func isPlain(_ key: String) -> Bool {
        !key.isEmpty
            && key.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }
}
