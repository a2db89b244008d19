// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import WidgetAPI
import WidgetModel
import WidgetStore

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users",
        abstract: "Manages the data of one user.",
        subcommands: [Erase.self, ClearHabits.self])

    struct Erase: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Erases a user of an app: stacks and habits, widgets, stored timelines and dead letters.",
            discussion: """
                The data is removed from the database when the command ends. The workers publish a tombstone for each \
                timeline that no other widget shows, so that Kafka's compaction removes it too. Events in the input topics are \
                deleted by their retention.

                Example:
                  freshet users erase --app com.example.bank u42 --yes
                """)

        @Argument(help: "The user's id.", transform: OptionText.identifier)
        var user: String

        @OptionGroup var confirmation: Confirmation
        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            try confirmation.ask("Erase \(Text.quoted(user)) of \(Text.quoted(app))?", refusal: "nothing was erased")
            guard let erasure = try await store.erase(user: user, of: app) else {
                throw WidgetStore.notRegistered(app)
            }
            output.print(
                erasure.json,
                or: "erased \(erasure.widgets) widgets, \(erasure.timelines) timelines, "
                    + "\(erasure.deadLetters) dead letters")
        }
    }

    struct ClearHabits: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Clears what was learned about when a user of an app looks.",
            discussion: """
                Predictions begin anew with the next donation; stacks, shortcuts and widgets stay. Donations that wait in \
                Kafka are learned afterwards.

                Example:
                  freshet users clear-habits --app com.example.bank u42 --yes
                """)

        @Argument(help: "The user's id.", transform: OptionText.identifier)
        var user: String

        @OptionGroup var confirmation: Confirmation
        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            try confirmation.ask(
                "Clear the habits of \(Text.quoted(user)) of \(Text.quoted(app))?", refusal: "nothing was cleared")
            let cleared = try await store.clearHabits(of: user, app: app)
            output.print(["cleared": .bool(cleared)], or: cleared ? "cleared the habits" : "no habits were learned")
        }
    }
}
