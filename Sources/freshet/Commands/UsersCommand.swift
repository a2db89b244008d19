import ArgumentParser
import FreshetService
import WidgetModel
import WidgetRepresentation
import WidgetStore

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users",
        abstract: "Manages the data of one user.",
        subcommands: [Erase.self])

    struct Erase: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Erases a user of an app: stacks and habits, widgets, stored timelines and dead letters.",
            discussion: """
                The data is removed from the database when the command ends. The workers publish a tombstone for each \
                timeline that nobody else shows, so that Kafka's compaction removes it too. Events in the input topics are \
                deleted by their retention.

                Example:
                  freshet users erase --app com.example.bank u42 --yes
                """)

        @Option(help: "The app's bundle identifier.")
        var app: String

        @Argument(help: "The user's id.", transform: OptionText.identifier)
        var user: String

        @OptionGroup var confirmation: Confirmation

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            try await confirmation.ask(
                "erasing", question: "Erase \(Text.quoted(user)) of \(Text.quoted(app))?",
                refusal: "nothing was erased")
            guard let erasure = try await store.erase(user: user, of: app) else {
                throw CommandFailure(.failure, "no app \(Text.quoted(app)) is registered")
            }
            output.print(
                erasure.json,
                or: "erased \(erasure.widgets) widgets, \(erasure.timelines) timelines, "
                    + "\(erasure.deadLetters) dead letters")
        }
    }
}
