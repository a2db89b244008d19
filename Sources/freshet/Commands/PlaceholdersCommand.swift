import ArgumentParser
import FreshetService
import WidgetModel
import WidgetStore

struct PlaceholdersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "placeholders",
        abstract: "Shows the placeholders of widgets without a timeline.",
        subcommands: [List.self])

    struct List: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists an app's placeholders.",
            discussion: """
                Lists for each kind the manifest's placeholder, which is the default of all families and environments, \
                and then those made by its provider.

                Examples:
                  freshet placeholders list --app com.example.bank
                  freshet placeholders list --app com.example.bank --kind DueDate --json
                """)

        @Option(help: "Only of this kind.")
        var kind: String?

        @Option(help: "Most placeholders to list.", transform: OptionText.number(1...100_000))
        var limit = 1_000

        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let placeholders = try await store.query(.listPlaceholders(app: app, kind: kind, limit: limit))
            output.print(
                placeholders.map(\.json),
                columns: [
                    "KIND": "kind", "SOURCE": "source", "FAMILY": "family", "LOCALE": "locale",
                    "TIME ZONE": "timeZone", "FETCHED": "fetchedAt", "NEXT": "dueAt", "FAILURES": "attempts",
                    "CONTENT": "content",
                ])
            if placeholders.count == limit { Terminal.complain("there may be more: --limit \(limit * 10)") }
        }
    }
}

extension PlaceholderDetail {
    var json: JSONValue {
        [
            "app": .string(app), "kind": .string(kind), "source": family == nil ? "manifest" : "provider",
            "family": .text(family?.name), "locale": .text(locale), "timeZone": .text(timeZone),
            "content": content.flatMap { try? JSONValue.parse($0) } ?? .null, "fetchedAt": .time(fetchedAt),
            "dueAt": .time(dueAt), "attempts": .count(attempts),
        ]
    }
}
