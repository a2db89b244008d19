import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetStore

struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancels the pending bulk work of a kind.",
        discussion: """
            Cancels reloads of everyone, recorded sweeps, and the timelines that they have made due and that are not being \
            fetched yet. Those stay stale until their next reload. Requests for a user, a device or a widget stay, and so \
            do later requests.

            Example:
              freshet cancel --app com.example.bank --kind RecentPurchases
            """)

    @Option(help: "The app's bundle identifier.")
    var app: String

    @Option(help: "The kind's name.")
    var kind: String

    @OptionGroup var output: OutputOptions

    func validate() throws {
        try Check.identifier(app, "--app")
        try Check.identifier(kind, "--kind")
    }

    func run() async throws {
        try await output.settings.withStore { store, _ in
            guard let cancellation = try await store.cancelWork(app: app, kind: kind) else {
                throw try await KindLookup.notFound(kind, of: app, in: store)
            }
            if output.json {
                Terminal.print([
                    "sweeps": .number(JSONNumber(cancellation.sweeps)),
                    "timelines": .number(JSONNumber(cancellation.timelines)),
                ])
            } else {
                Terminal.print("cancelled \(cancellation.sweeps) sweeps, \(cancellation.timelines) timelines")
            }
        }
    }
}
