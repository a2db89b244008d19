import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetRepresentation
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
                  freshet dead-letters list --cause unknownApp --since 2026-01-31T08:00:00Z --json
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

        @OptionGroup var target: DeadLetterTarget
        @OptionGroup var confirmation: Confirmation
        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            var filter = target.options.filter.withoutWaitingEvents
            // Dead letters that arrive during the question are not included.
            if !confirmation.yes {
                let limit = DeadLettersCommand.countLimit
                let count = try await store.query(Statements.countDeadLetters(filter, limit: limit)).first ?? 0
                try confirmation.ask(
                    "Discard \(NumberText.upTo(limit, count)) dead letters of \(target.options.owner)?",
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

    @Option(help: "Only those kept at or after this time, RFC 3339.", transform: OptionText.time)
    var since: Timestamp?

    @Option(help: "Only those kept before this time, RFC 3339.", transform: OptionText.time)
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

    var namesOwner: Bool { app != nil || noApp || !ids.isEmpty }

    var owner: String {
        if let app { return Text.quoted(app) }
        if noApp { return "no app" }
        return ids.isEmpty ? "all apps" : "the given ids"
    }
}

/// Filter of the dead letters that a command changes, which must name their owner.
struct DeadLetterTarget: ParsableArguments {
    @OptionGroup var options: DeadLetterOptions

    @Flag(help: "Of all apps, and those without an app.")
    var allApps = false

    func validate() throws {
        if allApps {
            guard options.app == nil, !options.noApp else {
                throw ValidationError("--all-apps: expected without --app and --no-app")
            }
        } else if !options.namesOwner {
            throw ValidationError("expected --app, --no-app, --id or --all-apps")
        }
    }
}
