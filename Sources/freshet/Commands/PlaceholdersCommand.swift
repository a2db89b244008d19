import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetStore

struct PlaceholdersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "placeholders",
        abstract: "Shows the placeholders of widgets without a timeline.",
        subcommands: [List.self])

    struct List: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists an app's placeholders.",
            discussion: """
                Lists for each kind the manifest's placeholder, which is the default of all families and environments, \
                and then those made by its provider.

                Examples:
                  freshet placeholders list --app com.example.bank
                  freshet placeholders list --app com.example.bank --kind DueDate --json
                """)

        @Option(help: "The app's bundle identifier.")
        var app: String

        @Option(help: "Only of this kind.")
        var kind: String?

        @Option(help: "Most placeholders to list.")
        var limit = 1_000

        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard (1...100_000).contains(limit) else { throw ValidationError("--limit: expected 1 to 100000") }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let placeholders = try await store.pool.query(.listPlaceholders(app: app, kind: kind, limit: limit))
            output.print(
                placeholders, \.json, columns: "KIND", "FAMILY", "LOCALE", "TIME ZONE", "FETCHED", "NEXT", "CONTENT"
            ) { placeholder in
                [
                    placeholder.kind, placeholder.family?.name ?? "any", placeholder.locale ?? "any",
                    placeholder.timeZone ?? "any", placeholder.fetched, placeholder.next,
                    placeholder.content ?? "the manifest's",
                ]
            }
            if placeholders.count == limit { Terminal.complain("there may be more: --limit \(limit * 10)") }
        }
    }
}

extension PlaceholderDetail {
    var json: JSONValue {
        var object = JSONObject()
        object["app"] = .string(app)
        object["kind"] = .string(kind)
        object["source"] = family == nil ? "manifest" : "provider"
        object["family"] = family.map { .string($0.name) } ?? .null
        object["locale"] = locale.map { .string($0) } ?? .null
        object["timeZone"] = timeZone.map { .string($0) } ?? .null
        object["content"] = content.flatMap { try? JSONValue.parse($0) } ?? .null
        object["fetchedAt"] = fetchedAt.map { .string($0.rfc3339) } ?? .null
        object["dueAt"] = dueAt.map { .string($0.rfc3339) } ?? .null
        object["attempts"] = .number(JSONNumber(Int(attempts)))
        return .object(object)
    }

    fileprivate var fetched: String {
        family == nil ? "manifest" : fetchedAt?.rfc3339 ?? "never"
    }

    fileprivate var next: String {
        guard let dueAt else { return "-" }
        return attempts > 0 ? "\(dueAt.rfc3339), failed \(attempts) times" : dueAt.rfc3339
    }
}
