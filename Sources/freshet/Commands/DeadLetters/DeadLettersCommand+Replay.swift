import ArgumentParser
import FreshetService
import PostgresClient
import ReloadIngest
import WidgetModel
import WidgetStore

extension DeadLettersCommand {
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

        @OptionGroup var target: DeadLetterTarget

        @Flag(help: "Show what would happen, without changes.")
        var dryRun = false

        @Flag(help: "Leave out the events' own times, such as wrong ones: the times of their messages count.")
        var ignoreTime = false

        @Option(help: "Most events per second.", transform: ReplayReport.rate)
        var rate: Int?

        @Option(help: "Most events to replay.", transform: OptionText.number(1...Int.max))
        var limit: Int?

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let replayer = DeadLetterReplayer(configuration: settings.ingestConfiguration, pool: store.pool)
            var options = DeadLetterReplayer.Options()
            options.isRehearsal = dryRun
            options.rate = rate
            options.limit = limit ?? .max
            options.ignoresTimes = ignoreTime
            let outcome = try await replayer.replay(target.options.filter, options) { ReplayReport.progress($0) }
            Terminal.endProgress()
            if outcome.isHeldBack { throw CommandFailure(.failure, DeadLetterReplayer.Outcome.heldBack) }
            output.print(
                .object(outcome.json).adding("dryRun", .bool(dryRun)),
                or: ReplayReport.text(outcome, isRehearsal: dryRun))
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

        @Option(help: "Most events per second; must be more than the app sends.", transform: ReplayReport.rate)
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
                let (outcome, wasDiverted) = try await replayer.resume(app: app, options) { ReplayReport.progress($0) }
                Terminal.endProgress()
                failed += outcome.failed
                documents.append(
                    .object(outcome.json).adding("app", .string(app)).adding("wasDiverted", .bool(wasDiverted)))
                let end = wasDiverted ? "its events flow again" : "it was not diverted"
                lines.append("\(app): \(ReplayReport.text(outcome, isRehearsal: false)); \(end)")
            }
            output.print(
                .array(documents), or: apps.isEmpty ? "no app is diverted" : lines.joined(separator: "\n"))
            if failed > 0 { throw ExitCode(CommandStatus.failure.rawValue) }
        }
    }
}

enum ReplayReport {
    static let rate = OptionText.number(1...1_000_000)

    static func progress(_ outcome: DeadLetterReplayer.Outcome) {
        Terminal.progress("\(outcome.replayed) replayed, \(outcome.failed) failed again")
    }

    static func text(_ outcome: DeadLetterReplayer.Outcome, isRehearsal: Bool) -> String {
        let failures = outcome.failures.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
            .joined(separator: ", ")
        let (replay, fail) = isRehearsal ? ("would replay", "would fail") : ("replayed", "failed")
        let why = failures.isEmpty ? "" : " (\(failures))"
        return "\(replay) \(outcome.replayed); \(outcome.failed) \(fail) again\(why)"
    }
}
