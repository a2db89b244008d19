import Foundation
import JSON
import WidgetModel

/// Description of a setting. Reading, `config show`, `config keys` and the check for unknown keys all use this table.
package struct SettingKey: Sendable {
    /// Name of the setting: `workers.claimBatch`.
    package let name: String
    package let summary: String
    /// Allowed values, such as "1 to 1000" or "text or json".
    package let expectation: String
    /// Whether the value may hold a secret, which is never printed and can be kept in a file named by `fileKeyName`.
    package let isSecret: Bool
    package let shape: Shape
    /// Sets the value from text, or throws ``SettingMismatch``.
    let assign: @Sendable (inout Settings, String) throws -> Void
    /// Returns the value as text in the form that `assign` accepts; nil if it is not set.
    package let write: @Sendable (Settings) -> String?

    /// Layout of a value in a file, and combination of several sources.
    package enum Shape: Sendable {
        case scalar
        /// Items separated by commas in one text.
        case list
        /// `name=value` pairs separated by commas in one text. Sources are merged by name.
        case map
    }

    /// The environment variable that holds the setting: `FRESHET_WORKERS_CLAIM_BATCH`.
    package var environmentName: String {
        SettingNames.environmentName(of: name)
    }

    /// The setting that names a file with the value: `postgres.urlFile`.
    package var fileKeyName: String? {
        isSecret ? name + "File" : nil
    }

    /// The default as text; nil for none.
    package var defaultText: String? {
        write(Settings())
    }

    /// The value for printing. A map that may hold secrets shows only its names.
    package func display(_ settings: Settings) -> String? {
        guard let text = write(settings) else { return nil }
        guard isSecret, !text.isEmpty else { return text }
        guard case .map = shape else { return SettingNames.redacted }
        let names = SettingText.split(text).map { $0.prefix { $0 != "=" } }
        return names.map { "\($0)=\(SettingNames.redacted)" }.joined(separator: ",")
    }
}

/// Error of a value that its setting does not allow, with a reason beyond the expectation.
package struct SettingMismatch: Error, Sendable {
    var reason: String?
}

package enum SettingNames {
    /// Text printed in place of a secret.
    package static let redacted = "<redacted>"
    static let environmentPrefix = "FRESHET_"

    /// `workers.claimBatch` → `FRESHET_WORKERS_CLAIM_BATCH`, as swift-configuration derives it.
    package static func environmentName(of key: String) -> String {
        var name = environmentPrefix
        var previousIsLowercase = false
        for character in key {
            if character.isUppercase, previousIsLowercase { name.append("_") }
            previousIsLowercase = character.isLowercase
            name.append(character == "." ? "_" : character.uppercased())
        }
        return name
    }
}

extension SettingKey {
    typealias Path<Value> = any WritableKeyPath<Settings, Value> & Sendable

    /// A setting with one value.
    private static func scalar<Value>(
        _ name: String, _ path: Path<Value>, _ expectation: String, isSecret: Bool = false, _ summary: String,
        read: @escaping @Sendable (String) throws -> Value,
        write: @escaping @Sendable (Value) -> String? = { "\($0)" }
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: expectation, isSecret: isSecret, shape: .scalar,
            assign: { settings, text in settings[keyPath: path] = try read(text) },
            write: { write($0[keyPath: path]) })
    }

    static func text(_ name: String, _ path: Path<String>, _ summary: String) -> SettingKey {
        scalar(name, path, "1 to 256 bytes of text", summary) { try $0.checked((1...256).contains($0.utf8.count)) }
    }

    static func optionalText(
        _ name: String, _ path: Path<String?>, expectation: String, isSecret: Bool = false,
        isValid: @escaping @Sendable (String) -> Bool = { _ in true }, _ summary: String
    ) -> SettingKey {
        scalar(
            name, path, expectation, isSecret: isSecret, summary,
            read: { try $0.checked((1...16_384).contains($0.utf8.count) && isValid($0)) }, write: { $0 })
    }

    static func topic(_ name: String, _ path: Path<String>, _ summary: String) -> SettingKey {
        scalar(name, path, "1 to 249 letters, digits, dots, underscores or hyphens", summary) {
            try $0.checked(SettingText.isKafkaName($0) && $0 != "." && $0 != "..")
        }
    }

    static func integer(_ name: String, _ path: Path<Int>, _ range: ClosedRange<Int>, _ summary: String) -> SettingKey {
        scalar(name, path, "\(range.lowerBound) to \(range.upperBound)", summary) {
            try SettingText.integer($0, in: range)
        }
    }

    static func optionalInteger(
        _ name: String, _ path: Path<Int?>, _ range: ClosedRange<Int>, _ summary: String
    ) -> SettingKey {
        scalar(
            name, path, "\(range.lowerBound) to \(range.upperBound)", summary,
            read: { try SettingText.integer($0, in: range) }, write: { $0.map { "\($0)" } })
    }

    static func duration(
        _ name: String, _ path: Path<Duration>, _ range: ClosedRange<Duration>, _ summary: String
    ) -> SettingKey {
        let bounds = "\(DurationText.write(range.lowerBound)) to \(DurationText.write(range.upperBound))"
        return scalar(
            name, path, bounds, summary,
            read: { text in
                guard let duration = DurationText.parse(text) else {
                    throw SettingMismatch(reason: "is not \(DurationText.form)")
                }
                guard range.contains(duration) else { throw SettingMismatch(reason: "is out of range") }
                return duration
            }, write: { DurationText.write($0) })
    }

    static func choice<Value: RawRepresentable<String> & CaseIterable & Sendable>(
        _ name: String, _ path: Path<Value>, _ summary: String
    ) -> SettingKey {
        scalar(
            name, path, Value.allCases.map(\.rawValue).joined(separator: ", "), summary,
            read: { try SettingText.required(Value(rawValue: $0)) }, write: { $0.rawValue })
    }

    static func flag(_ name: String, _ path: Path<Bool>, _ summary: String) -> SettingKey {
        scalar(name, path, "true, false", summary) { try SettingText.required(Bool($0)) }
    }

    /// A list whose items `isValid` accepts.
    static func list(
        _ name: String, _ path: Path<[String]>, expectation: String,
        isValid: @escaping @Sendable (String) -> Bool, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: expectation, isSecret: false, shape: .list,
            assign: { settings, text in
                let items = SettingText.split(text)
                if let wrong = items.first(where: { !isValid($0) }) {
                    throw SettingMismatch(reason: "holds \(Text.quoted(wrong))")
                }
                settings[keyPath: path] = items
            },
            write: { SettingText.join($0[keyPath: path]) })
    }

    /// Names with values that `isValid` accepts.
    static func map(
        _ name: String, _ path: Path<[String: String]>, expectation: String,
        isSecret: Bool = false, isValid: @escaping @Sendable (String, String) -> Bool, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: expectation, isSecret: isSecret, shape: .map,
            assign: { settings, text in
                for pair in SettingText.split(text) {
                    let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                        .map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
                    guard parts.count == 2, isValid(parts[0], parts[1]) else {
                        let shown = isSecret ? "has a part that is not name=value" : "holds \(Text.quoted(pair))"
                        throw SettingMismatch(reason: shown)
                    }
                    settings[keyPath: path][parts[0]] = parts[1]
                }
            },
            write: { settings in
                SettingText.join(settings[keyPath: path].sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" })
            })
    }
}

extension String {
    fileprivate func checked(_ isValid: Bool) throws -> String {
        guard isValid else { throw SettingMismatch() }
        return self
    }
}

/// The text of values. Lists are separated by commas, with `\,` for a comma and `\\` for a backslash within an item.
enum SettingText {
    /// Whether Kafka allows the text as a name.
    static func isKafkaName(_ text: String) -> Bool {
        (1...249).contains(text.utf8.count)
            && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
    }

    static func required<Value>(_ value: Value?) throws -> Value {
        guard let value else { throw SettingMismatch() }
        return value
    }

    static func integer(_ text: String, in range: ClosedRange<Int>) throws -> Int {
        guard let number = Int(text) else { throw SettingMismatch(reason: "is not a whole number") }
        guard range.contains(number) else { throw SettingMismatch(reason: "is out of range") }
        return number
    }

    static func split(_ text: String) -> [String] {
        var items = [""]
        var rest = text[...]
        while let character = rest.popFirst() {
            if character == "," {
                items.append("")
            } else if character == "\\", rest.first == "," || rest.first == "\\" {
                items[items.count - 1].append(rest.removeFirst())
            } else {
                // A backslash before another character stands for itself.
                items[items.count - 1].append(character)
            }
        }
        return items.map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }.filter { !$0.isEmpty }
    }

    static func join(_ items: [String]) -> String {
        items.map { $0.replacing("\\", with: "\\\\").replacing(",", with: "\\,") }.joined(separator: ",")
    }
}

/// The form of `kafka.bootstrapServers`: `host`, `host:port` or `[ipv6]:port`, optionally after `protocol://`,
/// separated by commas.
enum BootstrapServers {
    static func isValid(_ text: String) -> Bool {
        let servers = text.split(separator: ",", omittingEmptySubsequences: true)
        return !servers.isEmpty
            && servers.allSatisfy { server in
                var rest = server.drop { $0 == " " }
                while rest.last == " " { rest.removeLast() }
                if let scheme = rest.firstRange(of: "://") { rest = rest[scheme.upperBound...] }
                return isServer(rest)
            }
    }

    private static func isServer(_ text: Substring) -> Bool {
        guard !text.isEmpty, !text.contains(where: \.isWhitespace) else { return false }
        // Colons in brackets belong to an address.
        let afterHost = text.hasPrefix("[") ? text.drop { $0 != "]" }.dropFirst() : text.drop { $0 != ":" }
        guard afterHost.count < text.count else { return false }
        guard !afterHost.isEmpty else { return true }
        guard afterHost.hasPrefix(":"), let port = Int(afterHost.dropFirst()) else { return false }
        return (1...65_535).contains(port)
    }
}
