import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Target of pausing and resuming.
struct PauseOptions: ParsableArguments {
    @Option(help: "The app's bundle identifier.")
    var app: String

    @Option(help: "Only this kind; all of the app if none is given.")
    var kind: String?

    @OptionGroup var output: OutputOptions

    func validate() throws {
        try Check.identifier(app, "--app")
        if let kind { try Check.identifier(kind, "--kind") }
    }

    fileprivate var name: String {
        kind.map { "\(app) \($0)" } ?? app
    }
}

struct PauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Pauses the reloads of an app or of one of its kinds.",
        discussion: """
            Events are still applied, so nothing is lost, but no timeline is fetched, swept or removed until \
            `freshet resume`. Fetches under way are finished.

            Examples:
              freshet pause --app com.example.bank --kind RecentPurchases
              freshet pause --app com.example.bank
            """)

    @OptionGroup var target: PauseOptions

    func run() async throws {
        try await target.output.settings.withStore { store, _ in
            guard let outcome = try await store.pause(app: target.app, kind: target.kind) else {
                throw try await KindLookup.notFound(target.kind, of: target.app, in: store)
            }
            if target.output.json {
                Terminal.print(outcome.json(app: target.app, kind: target.kind))
            } else if outcome.isChanged {
                Terminal.print("paused \(target.name)")
            } else {
                Terminal.print("\(target.name) was paused already, since \(outcome.pausedAt?.rfc3339 ?? "-")")
            }
        }
    }
}

struct ResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Resumes the reloads of an app or of one of its kinds.",
        discussion: """
            Kinds that were paused individually stay paused when their app is resumed.

            Examples:
              freshet resume --app com.example.bank --kind RecentPurchases
              freshet resume --app com.example.bank
            """)

    @OptionGroup var target: PauseOptions

    func run() async throws {
        try await target.output.settings.withStore { store, _ in
            guard let outcome = try await store.resume(app: target.app, kind: target.kind) else {
                throw try await KindLookup.notFound(target.kind, of: target.app, in: store)
            }
            if target.output.json {
                Terminal.print(outcome.json(app: target.app, kind: target.kind))
            } else {
                Terminal.print(outcome.isChanged ? "resumed \(target.name)" : "\(target.name) was not paused")
            }
            if target.kind != nil, outcome.isAppPaused {
                Terminal.complain(
                    "the app is paused too: its reloads wait until `freshet resume --app \(target.app)`")
            }
        }
    }
}
