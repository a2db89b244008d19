import ArgumentParser
import FreshetService
import WidgetModel
import WidgetStore

struct OptionsCommand: StoreCommand {
    static let configuration = CommandConfiguration(
        commandName: "options",
        abstract: "Lists the values that a person can choose for a parameter.",
        discussion: """
            Options that are not in the kind's intent are asked from its provider, as the form of a widget does.

            Examples:
              freshet options --app com.example.bank --kind RecentPurchases --parameter card --user u42
              freshet options --app com.example.stocks --kind Symbol --parameter symbol --user u1 --search apple
            """)

    @Option(help: "The app's bundle identifier.")
    var app: String

    @Option(help: "The kind.")
    var kind: String

    @Option(
        help: "The parameter's name.",
        completion: .custom { arguments, _, _ in await OptionsCommand.parameters(arguments) })
    var parameter: String

    @Option(help: "Text that a person would type.")
    var search: String?

    @Option(help: "User for whom the provider answers.")
    var user = "operator"

    @Option(help: "Family of the widget.")
    var family = "systemSmall"

    @Option(help: ArgumentHelp("Values of the other parameters.", valueName: "json"))
    var configuration = "{}"

    @OptionGroup var environment: PublishWidgetCommand.DeviceEnvironment
    @OptionGroup var output: OutputOptions

    func validate() throws {
        try Check.identifier(user, "--user")
        _ = try Check.configuration(configuration, "--configuration")
        guard WidgetFamily(name: family) != nil else { throw ValidationError("--family \(family): expected a family") }
    }

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        let definition = try await KindLookup.kind(kind, of: app, in: store).definition
        let names = definition.intent?.parameters.map(\.name) ?? []
        guard let intent = definition.intent, let parameter = intent.parameter(parameter) else {
            let meant = Suggestion.closest(to: parameter, among: names).map { "; did you mean \($0)?" } ?? ""
            throw CommandFailure(.failure, "kind \(kind) has no parameter \(Text.quoted(parameter))\(meant)")
        }
        let environment = try environment.model()
        var options = parameter.listedOptions(intent.localizations, environment.locale)
        if options == nil {
            let searches = parameter.searchPrompt != nil
            let context = ConfigurationContext(
                user: user, family: WidgetFamily(name: family) ?? .systemSmall, environment: environment,
                values: try Check.configuration(configuration, "--configuration"))
            let question = OptionsQuestion(
                parameter: parameter.name, search: searches ? search : nil, context: context)
            options = try await ask(question, definition, store, settings)
            if searches { return print(options ?? IntentOptions()) }
        }
        let listed = options ?? IntentOptions()
        print(search.map { listed.filtered(by: $0) } ?? listed)
    }

    private func ask(
        _ question: OptionsQuestion, _ definition: KindDefinition, _ store: WidgetStore, _ settings: Settings
    ) async throws -> IntentOptions {
        do {
            return try await ProviderProbe(settings).options(question, of: definition, app: app, pool: store.pool)
        } catch let failure as ConfigurationFailure {
            throw CommandFailure(.failure, "the provider's options are not available: \(failure.message)")
        }
    }

    private func print(_ options: IntentOptions) {
        if output.json { return Terminal.print(options.json) }
        let rows = options.sections.flatMap { section in section.items.map { (section.title, $0) } }
        output.print(
            rows, { _ in .null }, columns: "SECTION", "VALUE", "DISPLAY",
            cells: { title, item in
                [
                    title ?? "-", item.value.stringValue ?? String(decoding: item.value.encoded, as: UTF8.self),
                    item.subtitle.map { "\(item.display) (\($0))" } ?? item.display,
                ]
            })
    }

    /// Names of the kind's parameters; none when the kind is not known, or there is no database.
    private static func parameters(_ arguments: [String]) async -> [String] {
        func option(_ name: String) -> String? {
            arguments.firstIndex(of: name).flatMap { $0 + 1 < arguments.count ? arguments[$0 + 1] : nil }
        }
        guard let app = option("--app"), let kind = option("--kind"),
            let command = try? OptionsCommand.parse(["--app", app, "--kind", kind, "--parameter", "p"])
        else { return [] }
        let found = try? await command.output.settings.withStore { store, _ in
            try await KindLookup.kind(kind, of: app, in: store)
        }
        return found?.definition.intent?.parameters.map(\.name) ?? []
    }
}
