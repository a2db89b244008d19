import ArgumentParser
import FreshetService
import WidgetModel
import WidgetRepresentation
import WidgetStore

extension DeadLettersCommand {
    struct Show: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows a dead letter: its error, position, headers, payload and state.",
            discussion: """
                The payload is shown as text if it is UTF-8, else in hexadecimal, and cut after 4096 bytes unless --raw. \
                Values of headers that look like secrets are left out.

                Example:
                  freshet dead-letters show 4711
                """)

        @Argument(help: "The dead letter's id, as `freshet dead-letters list` shows it.")
        var id: Int64

        @Flag(help: "Show the whole payload.")
        var raw = false

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            guard let row = try await store.query(.readDeadLetter(id: id)).first else {
                throw CommandFailure(.failure, "there is no dead letter \(id); `freshet dead-letters list` shows all")
            }
            output.print(document(row), or: lines(row).joined(separator: "\n"))
        }

        private var payloadLimit: Int { raw ? .max : 4_096 }

        private func document(_ row: DeadLetterDetail) -> JSONValue {
            let headers = row.letter.headers.map { header -> JSONValue in
                ["name": .string(header.name), "value": .string(Self.value(of: header))]
            }
            return row.summary.json.adding("messageTime", .time(row.letter.time))
                .adding("key", row.letter.key.map { Bytes($0, limit: 1_024).json } ?? .null)
                .adding("headers", .array(headers))
                .adding("payload", row.letter.payload.map { Bytes($0, limit: payloadLimit).json } ?? .null)
        }

        private func lines(_ row: DeadLetterDetail) -> [String] {
            let (summary, letter) = (row.summary, row.letter)
            var lines = [
                "dead letter  \(summary.id), \(summary.state.rawValue)",
                "cause        \(summary.cause) (\(summary.code))",
                "error        \(Text.printable(summary.error, maximum: 2_000))",
            ]
            if let pointer = summary.pointer { lines.append("where        \(pointer.isEmpty ? "the whole" : pointer)") }
            lines += [
                "app          \(summary.app ?? "-")",
                "message      \(summary.topic)/\(summary.partition)@\(summary.offset)\(letter.time.map { ", sent \($0.rfc3339)" } ?? "")",
                "kept         \(summary.receivedAt.rfc3339)",
                "forwarded    \(forwarded(summary))", "replays      \(replays(summary))",
            ]
            if let discarded = summary.discardedAt { lines.append("discarded    \(discarded.rfc3339)") }
            lines.append("key          \(letter.key.map { Bytes($0, limit: 1_024).text } ?? "-")")
            for header in letter.headers {
                lines.append("header       \(Text.printable(header.name, maximum: 256)): \(Self.value(of: header))")
            }
            guard let payload = letter.payload else { return lines + ["payload      none"] }
            let shown = Bytes(payload, limit: payloadLimit)
            lines.append("payload      \(payload.count) bytes\(shown.isText ? "" : ", hexadecimal")")
            lines.append(shown.text)
            if shown.isCut { lines.append("… cut after \(payloadLimit) bytes: --raw shows all") }
            return lines
        }

        private func forwarded(_ summary: DeadLetterSummary) -> String {
            if let time = summary.forwardedAt { return time.rfc3339 }
            if summary.unforwardableAt != nil { return "never: \(summary.forwardError ?? "Kafka refuses it")" }
            return summary.cause == DeadLetterCause.diverted.rawValue ? "no, it only waits" : "not yet"
        }

        private func replays(_ summary: DeadLetterSummary) -> String {
            guard summary.replays > 0 else { return "none" }
            if let time = summary.replayedAt { return "\(summary.replays), applied \(time.rfc3339)" }
            return "\(summary.replays), failed last \(summary.lastReplayAt?.rfc3339 ?? "-")"
        }

        /// A header's value, redacted if its name is that of a secret.
        private static func value(of header: (name: String, value: [UInt8]?)) -> String {
            guard let value = header.value else { return "null" }
            let name = header.name.lowercased()
            let secrets = ["authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "signature"]
            guard !secrets.contains(where: { name.contains($0) }) else { return SettingNames.redacted }
            return Bytes(value, limit: 1_024).text
        }
    }
}

extension DeadLetter {
    fileprivate var time: Timestamp? { messageTime.flatMap { Timestamp(milliseconds: $0) } }
}

/// Foreign bytes for a terminal: text without control characters if they are UTF-8, else hexadecimal.
private struct Bytes {
    let text: String
    let isText: Bool
    let isCut: Bool

    init(_ bytes: [UInt8], limit: Int) {
        isCut = bytes.count > limit
        isText = String(validating: bytes, as: UTF8.self) != nil
        guard isText else {
            text = Hex.text(Array(bytes.prefix(limit)))
            return
        }
        var shown = bytes.prefix(limit)
        // Does not cut within a character.
        while isCut, let last = shown.last, last & 0b1100_0000 == 0b1000_0000 { shown.removeLast() }
        if isCut, let last = shown.last, last >= 0b1100_0000 { shown.removeLast() }
        var clean = ""
        for scalar in String(decoding: shown, as: UTF8.self).unicodeScalars {
            let isControl =
                (scalar.value < 0x20 && scalar != "\n" && scalar != "\t") || (0x7F..<0xA0).contains(scalar.value)
            clean.unicodeScalars.append(isControl ? " " : scalar)
        }
        text = clean
    }

    var json: JSONValue {
        [(isText ? "text" : "hex"): .string(text), "cut": .bool(isCut)]
    }
}
