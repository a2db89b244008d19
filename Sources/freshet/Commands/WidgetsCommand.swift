import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

struct WidgetsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "widgets",
        abstract: "Lists, shows and imports placed widgets.",
        subcommands: [List.self, Show.self, Import.self])

    struct List: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists an app's widgets by id.",
            discussion: """
                Examples:
                  freshet widgets list --app com.example.bank --user u42
                  freshet widgets list --app com.example.bank --kind DueDate --limit 20 --after w100 --json
                """)

        @Option(help: "The app's bundle identifier.")
        var app: String

        @Option(help: "Only this user's.")
        var user: String?

        @Option(help: "Only this device's.")
        var device: String?

        @Option(help: "Only of this kind.")
        var kind: String?

        @Option(help: "Most widgets to list.", transform: OptionText.number(1...100_000))
        var limit = 100

        @Option(help: "List those after this id.")
        var after = ""

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let filter = WidgetFilter(app: app, user: user, device: device, kind: kind, after: after)
            let widgets = try await store.pool.query(.listWidgets(filter, limit: limit))
            output.print(
                widgets, \.json, columns: "WIDGET", "KIND", "FAMILY", "USER", "DEVICE", "TIMELINE", "CONFIGURATION"
            ) { widget in
                [
                    widget.id, widget.kind, widget.family.name, widget.user, widget.device,
                    widget.timelineID?.description ?? "-", widget.configuration ?? "-",
                ]
            }
            if widgets.count == limit, let last = widgets.last {
                Terminal.complain("there may be more: --after \(last.id)")
            }
        }
    }

    struct Show: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows one widget, also a removed one, as JSON.",
            discussion: """
                Example:
                  freshet widgets show --app com.example.bank w1
                """)

        @Option(help: "The app's bundle identifier.")
        var app: String

        @Argument(help: "The widget's id.")
        var widget: String

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            Terminal.print(try await WidgetLookup.widget(widget, of: app, in: store).json)
        }
    }
}

enum WidgetLookup {
    static func widget(_ id: String, of app: String, in store: WidgetStore) async throws -> WidgetDetail {
        let filter = WidgetFilter(app: app, widget: id)
        guard let widget = try await store.pool.query(.listWidgets(filter, limit: 1)).first else {
            throw CommandFailure(.failure, "app \(Text.quoted(app)) has no widget \(Text.quoted(id))")
        }
        return widget
    }
}
