// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import PostgresClient
import ReloadIngest
import WidgetAPI
import WidgetModel
import WidgetStore

struct DeadLettersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead-letters",
        abstract: "Lists, shows, edits, replays and discards events that could not be applied, and ends diversions.",
        discussion: """
            Events that cannot be applied are kept with their cause:
              malformed   not JSON
              invalid     not a valid event
              unknownApp  the app is not registered
              unknownKind the app has no such kind
              unreadable  only a newer version can read the kind or widget
              refused     the database refuses the data
              notAllowed  the topic may not carry events of the app (topics.allowedApps)
              diverted    the app is over its limit of dead letters, and all its events wait
            """,
        subcommands: [List.self, Show.self, Edit.self, Replay.self, Resume.self, Discard.self])

    struct List: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists dead letters, newest first, or the diverted apps.",
            discussion: """
                Lists waiting ones; --all also lists those that were replayed or discarded and are still kept.

                Examples:
                  freshet dead-letters list --app com.example.bank
                  freshet dead-letters list --cause unknownApp --since now-1h --json
                  freshet dead-letters list --diverted
                """)

        @OptionGroup var options: DeadLetterOptions

        @Flag(help: "Also list those that were replayed or discarded.")
        var all = false

        @Flag(help: "List the diverted apps and their waiting events instead.")
        var diverted = false

        @Option(help: "Most dead letters to list.", transform: OptionText.number(1...100_000))
        var limit = 50

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            if diverted { return try await listDiversions(store) }
            let filter = options.filter
            let letters =
                all
                ? try await store.query(.listAllDeadLetters(filter, limit: limit))
                : try await store.query(.listDeadLetters(filter, limit: limit))
            output.print(
                letters.map(\.json),
                columns: [
                    "ID": "id", "KEPT": "receivedAt", "APP": "app", "CAUSE": "cause", "STATE": "state",
                    "TOPIC": "topic", "PARTITION": "partition", "OFFSET": "offset", "ERROR": "error",
                ])
            if letters.count == limit {
                Terminal.complain("there may be more: --limit \(min(limit * 10, 100_000))")
            }
        }

        private func listDiversions(_ store: WidgetStore) async throws {
            let diversions = try await store.query(.listDiversions(countLimit: DeadLettersCommand.countLimit))
                .filter { diversion in options.app.map { Text.equal($0, diversion.app) } ?? true }
            output.print(
                diversions.map(\.json),
                columns: [
                    "APP": "app", "SINCE": "divertedAt", "FAILED": "failed", "OF EVENTS": "events",
                    "WAITING": "waiting", "DROPPED SINCE": "droppedSince",
                ])
        }
    }

    static let countLimit = 1_000_000

    struct Discard: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Discards dead letters, so that they are not replayed.",
            discussion: """
                They can be listed with --all until they are deleted (deadLetters.retention). Without --cause and --id, events \
                that only wait (diverted, unreadable) are kept.

                Examples:
                  freshet dead-letters discard --app com.example.bank --cause malformed
                  freshet dead-letters discard --id 4711 --yes
                  freshet dead-letters discard --app com.example.bank --cause diverted
                """)

        @OptionGroup var options: DeadLetterOptions

        @Flag(help: "Of all apps, and those without an app.")
        var allApps = false

        @OptionGroup var confirmation: Confirmation
        @OptionGroup var output: OutputOptions

        func validate() throws { try options.requireOwner(orAll: allApps) }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            var filter = options.filter.withoutWaitingEvents
            // Dead letters that arrive during the question are not included.
            if !confirmation.yes {
                let limit = DeadLettersCommand.countLimit
                let count = try await store.query(Statements.countDeadLetters(filter, limit: limit)).first ?? 0
                try confirmation.ask(
                    "Discard \(Figure.count(count, limit: limit)) dead letters of \(options.owner)?",
                    refusal: "nothing was discarded")
            }
            if filter.until == nil { filter.until = try await store.query(.databaseTime()).first }
            var discarded = 0
            var last = 1_000
            while last == 1_000 {
                last = try await store.query(.discardDeadLetters(filter, limit: 1_000)).count
                discarded += last
            }
            output.print(["discarded": .count(discarded)], or: "discarded \(discarded) dead letters")
        }
    }
}

extension DeadLetterCause: ExpressibleByArgument {}

extension Diversion {
    var json: JSONValue {
        [
            "app": .string(app), "divertedAt": .time(divertedAt),
            "failed": .count(letters), "events": .count(events),
            "waiting": .count(waiting), "droppedSince": .time(fullAt),
        ]
    }
}

struct DeadLetterOptions: ParsableArguments {
    @Option(help: "Only of this app, by its bundle identifier.", transform: OptionText.identifier)
    var app: String?

    @Flag(help: "Only messages without a readable app.")
    var noApp = false

    @Option(
        name: .customLong("cause"), parsing: .singleValue,
        help: ArgumentHelp("Only of this cause; can be given several times.", valueName: "cause"))
    var causes: [DeadLetterCause] = []

    @Option(help: "Only from this topic.")
    var topic: String?

    @Option(help: "Only from this partition.", transform: OptionText.number(0...Int32.max))
    var partition: Int32?

    @Option(help: "Only those kept at or after this time: \(OptionText.timeForm).", transform: OptionText.time)
    var since: Timestamp?

    @Option(help: "Only those kept before this time.", transform: OptionText.time)
    var until: Timestamp?

    @Option(
        name: .customLong("id"), parsing: .singleValue,
        help: ArgumentHelp("Only this one; can be given several times.", valueName: "id"))
    var ids: [Int64] = []

    func validate() throws {
        if app != nil, noApp { throw ValidationError("--app and --no-app: expected one of them") }
        if let since, let until, until <= since { throw ValidationError("--until: expected a time after --since") }
        guard ids.count <= 1_000 else { throw ValidationError("--id: expected 1000 or fewer") }
    }

    var filter: DeadLetterFilter {
        var filter = DeadLetterFilter(owner: app.map { .app($0) } ?? (noApp ? .none : .any), causes: causes)
        filter.topic = topic
        filter.partition = partition
        filter.since = since
        filter.until = until
        filter.ids = ids
        return filter
    }

    /// Requires that a command which changes dead letters names their owner.
    func requireOwner(orAll allApps: Bool) throws {
        if allApps {
            guard app == nil, !noApp else { throw ValidationError("--all-apps: expected without --app and --no-app") }
        } else if app == nil, !noApp, ids.isEmpty {
            throw ValidationError("expected --app, --no-app, --id or --all-apps")
        }
    }

    var owner: String {
        if let app { return Text.quoted(app) }
        if noApp { return "no app" }
        return ids.isEmpty ? "all apps" : "the given ids"
    }
}

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
                .adding("key", Self.json(row.letter.key, limit: 1_024))
                .adding("headers", .array(headers))
                .adding("payload", Self.json(row.letter.payload, limit: payloadLimit))
        }

        private static func json(_ bytes: [UInt8]?, limit: Int) -> JSONValue {
            guard let shown = bytes.map({ printable($0, limit: limit) }) else { return .null }
            return [(shown.isText ? "text" : "hex"): .string(shown.text), "cut": .bool(shown.isCut)]
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
            lines.append("key          \(letter.key.map { printable($0, limit: 1_024).text } ?? "-")")
            for header in letter.headers {
                lines.append("header       \(Text.printable(header.name, maximum: 256)): \(Self.value(of: header))")
            }
            guard let payload = letter.payload else { return lines + ["payload      none"] }
            let shown = printable(payload, limit: payloadLimit)
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
            guard !secrets.contains(where: { name.contains($0) }) else { return SettingKey.redacted }
            return printable(value, limit: 1_024).text
        }
    }
}

extension DeadLetter {
    fileprivate var time: Timestamp? { messageTime.flatMap { Timestamp(milliseconds: $0) } }
}

/// Foreign bytes for a terminal: text without control characters if they are UTF-8, else hexadecimal.
private func printable(_ bytes: [UInt8], limit: Int) -> (text: String, isText: Bool, isCut: Bool) {
    let isCut = bytes.count > limit
    guard String(validating: bytes, as: UTF8.self) != nil else {
        return (String(hexadecimal: Array(bytes.prefix(limit))), false, isCut)
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
    return (clean, true, isCut)
}

extension DeadLettersCommand {
    struct Edit: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Changes the headers or the payload of a waiting dead letter, so that a replay can apply it.",
            discussion: """
                `freshet dead-letters show ID --raw` shows the letter. The message in Kafka stays as it is.

                Examples:
                  freshet dead-letters edit 4711 --header "ce_time=$(date -u +%FT%TZ)"
                  freshet dead-letters edit 4711 --without-header ce_time
                  freshet dead-letters edit 4711 --payload event.json
                """)

        @Argument(help: "Id of the dead letter.")
        var id: Int64

        @Option(
            name: .customLong("header"), parsing: .singleValue,
            help: ArgumentHelp("A header; replaces those of this name.", valueName: "name=value"))
        var headers: [String] = []

        @Option(
            name: .customLong("without-header"), parsing: .singleValue,
            help: ArgumentHelp("A header to remove.", valueName: "name"))
        var removedHeaders: [String] = []

        @Option(help: ArgumentHelp("File with the new payload; - is standard input.", valueName: "file"))
        var payload: String?

        @OptionGroup var output: OutputOptions

        private static let maximumBytes = 1_048_576

        func validate() throws {
            guard !headers.isEmpty || !removedHeaders.isEmpty || payload != nil else {
                throw ValidationError("expected --header, --without-header or --payload")
            }
            for header in headers where header.firstIndex(of: "=") ?? header.startIndex == header.startIndex {
                throw ValidationError("--header \(Text.quoted(header)): expected name=value")
            }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let payload = try payload.map {
                try [UInt8](file: $0 == "-" ? "/dev/stdin" : $0, maximumBytes: Self.maximumBytes)
            }
            let missing = CommandFailure(.failure, "no dead letter \(id) waits")
            guard let (summary, letter) = try await store.query(.readDeadLetter(id: id)).first,
                summary.state == .waiting
            else { throw missing }
            let changed = headers.map { header in
                let name = header.prefix { $0 != "=" }
                return (name: String(name), value: [UInt8]?.some(Array(header.dropFirst(name.count + 1).utf8)))
            }
            let removed = Set(changed.map { $0.name.lowercased() } + removedHeaders.map { $0.lowercased() })
            let kept = letter.headers.filter { !removed.contains($0.name.lowercased()) }
            guard
                try await store.query(
                    .editDeadLetter(id: id, headers: kept + changed, payload: payload ?? letter.payload)
                ).first == id
            else { throw missing }
            output.print(["edited": .count(id)], or: "edited dead letter \(id); replay it with --id \(id)")
        }
    }

    struct Replay: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replays dead letters, oldest first; each takes effect once.",
            discussion: """
                Applied events are marked in the same transaction, so replaying twice or concurrently does no harm. Events \
                that fail again keep waiting with their new error. Events about widgets never override newer ones.

                Events of a diverted app keep waiting: `freshet dead-letters resume` replays it in order and ends the \
                diversion.

                The exit status is 1 if some have failed again.

                Examples:
                  freshet dead-letters replay --app com.example.bank --cause unknownKind --dry-run
                  freshet dead-letters replay --app com.example.bank --rate 500
                  freshet dead-letters replay --id 4711 --id 4712
                  freshet dead-letters replay --app com.example.bank --cause invalid --ignore-time
                """)

        @OptionGroup var options: DeadLetterOptions

        @Flag(help: "Of all apps, and those without an app.")
        var allApps = false

        @Flag(help: "Show what would happen, without changes.")
        var dryRun = false

        @Flag(help: "Leave out the events' own times, such as wrong ones: the times of their messages count.")
        var ignoreTime = false

        @Option(help: "Most events per second.", transform: replayRate)
        var rate: Int?

        @Option(help: "Most events to replay.", transform: OptionText.number(1...Int.max))
        var limit: Int?

        @OptionGroup var output: OutputOptions

        func validate() throws { try options.requireOwner(orAll: allApps) }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let replayer = DeadLetterReplayer(configuration: settings.ingestConfiguration, pool: store.pool)
            var replay = DeadLetterReplayer.Options()
            replay.isRehearsal = dryRun
            replay.rate = rate
            replay.limit = limit ?? .max
            replay.ignoresTimes = ignoreTime
            let outcome = try await replayer.replay(options.filter, replay) { $0.showProgress() }
            Terminal.endProgress()
            if outcome.isHeldBack { throw CommandFailure(.failure, DeadLetterReplayer.Outcome.heldBack) }
            output.print(
                .object(outcome.json).adding("dryRun", .bool(dryRun)),
                or: outcome.text(isRehearsal: dryRun))
            if outcome.failed > 0 { throw ExitCode(CommandStatus.failure.rawValue) }
        }
    }

    struct Resume: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replays the events of a diverted app and ends the diversion.",
            discussion: """
                Until none is left, new events of the app are diverted too, so none overtakes another. Events that fail \
                become dead letters. Events that failed before the diversion are left to `freshet dead-letters replay`.

                The exit status is 1 if some have failed; the diversion ends nevertheless.

                Examples:
                  freshet dead-letters resume --app com.example.bank
                  freshet dead-letters resume --all
                """)

        @Option(help: "The app's bundle identifier.", transform: OptionText.identifier)
        var app: String?

        @Flag(help: "All diverted apps, one after another.")
        var all = false

        @Option(help: "Most events per second; must be more than the app sends.", transform: replayRate)
        var rate: Int?

        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard (app != nil) != all else { throw ValidationError("expected --app or --all") }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let apps: [String]
            if let app {
                guard try await store.query(.listApps()).contains(where: { Text.equal($0.name, app) }) else {
                    throw CommandFailure(.failure, "no app \(Text.quoted(app)) is registered")
                }
                apps = [app]
            } else {
                apps = try await store.query(.listDiversions(countLimit: 0)).map(\.app)
            }
            let replayer = DeadLetterReplayer(configuration: settings.ingestConfiguration, pool: store.pool)
            var options = DeadLetterReplayer.Options()
            options.rate = rate
            var (documents, lines, failed) = ([JSONValue](), [String](), 0)
            for app in apps {
                let (outcome, wasDiverted) = try await replayer.resume(app: app, options) { $0.showProgress() }
                Terminal.endProgress()
                failed += outcome.failed
                documents.append(
                    .object(outcome.json).adding("app", .string(app)).adding("wasDiverted", .bool(wasDiverted)))
                let end = wasDiverted ? "its events flow again" : "it was not diverted"
                lines.append("\(app): \(outcome.text(isRehearsal: false)); \(end)")
            }
            output.print(
                .array(documents), or: apps.isEmpty ? "no app is diverted" : lines.joined(separator: "\n"))
            if failed > 0 { throw ExitCode(CommandStatus.failure.rawValue) }
        }
    }
}

private let replayRate = OptionText.number(1...1_000_000)

extension DeadLetterReplayer.Outcome {
    fileprivate func showProgress() {
        Terminal.progress("\(replayed) replayed, \(failed) failed again")
    }

    fileprivate func text(isRehearsal: Bool) -> String {
        let failures = failures.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
            .joined(separator: ", ")
        let (replay, fail) = isRehearsal ? ("would replay", "would fail") : ("replayed", "failed")
        let why = failures.isEmpty ? "" : " (\(failures))"
        return "\(replay) \(replayed); \(failed) \(fail) again\(why)"
    }
}
