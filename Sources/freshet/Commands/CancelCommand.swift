import ArgumentParser
import PostgresClient
import WidgetModel
import WidgetStore

struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancels the bulk work of a kind that is pending.",
        discussion: """
            A reload of everyone that is being swept, recorded sweeps, and the timelines that they have made due and \
            that are not being fetched yet. Those stay visibly stale until their next reload, which serves what was \
            cancelled too. Requests to a person, a device or a widget stay, and so does what is asked for from now on.

            Example:
              freshet cancel --app com.example.bank --kind RecentPurchases
            """)

    @Option(help: "The app's bundle identifier.")
    var app: String

    @Option(help: "The kind's name.")
    var kind: String

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var settings: SettingsOptions

    func validate() throws {
        try Check.identifier(app, "--app")
        try Check.identifier(kind, "--kind")
    }

    func run() async throws {
        try await settings.withStore { store, _ in
            guard let cancellation = try await store.cancelWork(app: app, kind: kind) else {
                throw try await KindLookup.notFound(kind, of: app, in: store)
            }
            if json {
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
