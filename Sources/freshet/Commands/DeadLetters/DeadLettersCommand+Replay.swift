import ArgumentParser
import PostgresClient
import ReloadIngest
import WidgetModel
import WidgetStore

extension DeadLettersCommand {
    struct Replay: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Feeds dead letters in again, oldest first; each takes its effect once.",
            discussion: """
                The original message takes the way that it took first. What is applied is marked in the same transaction, \
                so replaying twice, or by two people at a time, does no harm; what fails again waits on, with its new \
                error. Events about widgets never override newer ones.

                The events of a diverted app that come meanwhile go on waiting: `freshet dead-letters resume` replays \
                them in order and ends the diversion.

                Exit status 1 when some have failed again.

                Examples:
                  freshet dead-letters replay --app com.example.bank --cause unknownKind --dry-run
                  freshet dead-letters replay --app com.example.bank --rate 500
                  freshet dead-letters replay --id 4711 --id 4712
                """)

        @OptionGroup var target: DeadLetterTarget

        @Flag(help: "Tell what would happen, and change nothing.")
        var dryRun = false

        @Option(help: "Most events a second.")
        var rate: Int?

        @Option(help: "Most events to replay.")
        var limit: Int?

        @Flag(help: "Print JSON.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func validate() throws {
            try ReplayReport.check(rate: rate)
            if let limit, limit < 1 { throw ValidationError("--limit: expected 1 or more") }
        }

        func run() async throws {
            try await settings.withStore { store, settings in
                let replayer = DeadLetterReplayer(configuration: settings.ingestConfiguration, pool: store.pool)
                var options = DeadLetterReplayer.Options()
                options.isRehearsal = dryRun
                options.rate = rate
                options.limit = limit ?? .max
                let outcome = try await replayer.replay(target.options.filter, options) { ReplayReport.progress($0) }
                Terminal.endProgress()
                if !dryRun, outcome.replayed > 0 { _ = try? await store.pool.query(NotifyDue()) }
                if json {
                    var object = outcome.json
                    object["dryRun"] = .bool(dryRun)
                    Terminal.print(.object(object))
                } else {
                    Terminal.print(ReplayReport.text(outcome, isRehearsal: dryRun))
                }
                if outcome.failed > 0 { throw ExitCode(CommandStatus.failure.rawValue) }
            }
        }
    }

    struct Resume: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replays what waits of a diverted app, and ends the diversion.",
            discussion: """
                Until nothing is left, new events of the app join what waits, so none overtakes another. What fails \
                again becomes a dead letter of its own. What failed before the app was diverted is not touched: \
                `freshet dead-letters replay` does that.

                Exit status 1 when some have failed again; the diversion is ended all the same.

                Examples:
                  freshet dead-letters resume --app com.example.bank
                  freshet dead-letters resume --all
                """)

        @Option(help: "The app's bundle identifier.")
        var app: String?

        @Flag(help: "All diverted apps, one after another.")
        var all = false

        @Option(help: "Most events a second; the app has to send fewer, or this never ends.")
        var rate: Int?

        @Flag(help: "Print JSON.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func validate() throws {
            try ReplayReport.check(rate: rate)
            if let app { try Check.identifier(app, "--app") }
            guard (app != nil) != all else { throw ValidationError("expected --app or --all") }
        }

        func run() async throws {
            try await settings.withStore { store, settings in
                let apps: [String]
                if let app {
                    guard try await store.pool.query(ListApps()).contains(where: { Text.equal($0.name, app) }) else {
                        throw CommandFailure(.failure, "no app \(Text.quoted(app)) is registered")
                    }
                    apps = [app]
                } else {
                    apps = try await store.pool.query(ListDiversions(countLimit: 0)).map(\.app)
                }
                let replayer = DeadLetterReplayer(configuration: settings.ingestConfiguration, pool: store.pool)
                var options = DeadLetterReplayer.Options()
                options.rate = rate
                var documents: [JSONValue] = []
                var failed = 0
                for app in apps {
                    let (outcome, wasDiverted) = try await replayer.resume(app: app, options) {
                        ReplayReport.progress($0)
                    }
                    Terminal.endProgress()
                    failed += outcome.failed
                    if outcome.replayed > 0 { _ = try? await store.pool.query(NotifyDue()) }
                    var object = outcome.json
                    object["app"] = .string(app)
                    object["wasDiverted"] = .bool(wasDiverted)
                    documents.append(.object(object))
                    if !json {
                        let end = wasDiverted ? "its events flow again" : "it was not diverted"
                        Terminal.print("\(app): \(ReplayReport.text(outcome, isRehearsal: false)); \(end)")
                    }
                }
                if json { Terminal.print(.array(documents)) }
                if apps.isEmpty, !json { Terminal.print("no app is diverted") }
                if failed > 0 { throw ExitCode(CommandStatus.failure.rawValue) }
            }
        }
    }
}

/// What commands tell of a replay.
enum ReplayReport {
    static func check(rate: Int?) throws {
        if let rate, !(1...1_000_000).contains(rate) { throw ValidationError("--rate: expected 1 to 1000000") }
    }

    static func progress(_ outcome: DeadLetterReplayer.Outcome) {
        Terminal.progress("\(outcome.replayed) replayed, \(outcome.failed) failed again")
    }

    static func text(_ outcome: DeadLetterReplayer.Outcome, isRehearsal: Bool) -> String {
        let failures = outcome.failures.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
            .joined(separator: ", ")
        let why = failures.isEmpty ? "" : " (\(failures))"
        return isRehearsal
            ? "would replay \(outcome.replayed); \(outcome.failed) would fail again\(why)"
            : "replayed \(outcome.replayed); \(outcome.failed) failed again\(why)"
    }
}

extension DeadLetterReplayer.Outcome {
    fileprivate var json: JSONObject {
        var object = JSONObject()
        object["replayed"] = .number(JSONNumber(replayed))
        object["failed"] = .number(JSONNumber(failed))
        object["failures"] = .object(
            JSONObject(
                failures.sorted { $0.key < $1.key }.map {
                    JSONObject.Member(key: $0.key, value: .number(JSONNumber($0.value)))
                }))
        return object
    }
}
