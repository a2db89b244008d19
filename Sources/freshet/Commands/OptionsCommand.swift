// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import WidgetModel
import WidgetStore

struct OptionsCommand: AppCommand {
    static let configuration = CommandConfiguration(
        commandName: "options",
        abstract: "Lists the values that a person can choose for a parameter.",
        discussion: """
            Options that the kind's intent does not list are requested from its provider, as the form of a widget does.

            Examples:
              freshet options --app com.example.bank --kind RecentPurchases --parameter card --user u42
              freshet options --app com.example.stocks --kind Symbol --parameter symbol --user u1 --search apple
            """)

    @Option(help: "The kind.")
    var kind: String

    @Option(help: "The parameter's name.")
    var parameter: String

    @Option(help: "Text that a person would type.")
    var search: String?

    @Option(help: "User for whom the provider answers.", transform: OptionText.identifier)
    var user = "operator"

    @Option(help: "Family of the widget.", transform: OptionText.family)
    var family = WidgetFamily.systemSmall

    @Option(
        help: ArgumentHelp("Values of the other parameters.", valueName: "json"), transform: OptionText.configuration)
    var configuration = WidgetConfiguration.empty

    @OptionGroup var environment: DeviceEnvironment
    @OptionGroup var options: AppOptions

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        let definition = try await store.kind(kind, of: app).definition
        let names = definition.intent?.parameters.map(\.name) ?? []
        guard let intent = definition.intent, let parameter = intent.parameter(parameter) else {
            let hint = parameter.hint(among: names)
            throw CommandFailure(.failure, "kind \(kind) has no parameter \(Text.quoted(parameter))\(hint)")
        }
        let environment = try environment.model()
        let searches = parameter.searchPrompt != nil
        let listed = parameter.listedOptions(of: intent, environment.locale)
        let context = ConfigurationContext(
            user: user, family: family, environment: environment, values: configuration)
        let question = OptionsQuestion(parameter: parameter.name, search: searches ? search : nil, context: context)
        let found = if let listed { listed } else { try await ask(question, definition, store, settings) }
        // A provider that searches has filtered its answer.
        if let search, listed != nil || !searches { print(found.filtered(by: search)) } else { print(found) }
    }

    private func ask(
        _ question: OptionsQuestion, _ definition: KindDefinition, _ store: WidgetStore, _ settings: Settings
    ) async throws -> IntentOptions {
        do {
            return try await settings.options(question, of: definition, app: app, pool: store.pool)
        } catch let failure as ProviderFailure {
            throw CommandFailure(.failure, "the provider's options are not available: \(failure.message)")
        }
    }

    private func print(_ options: IntentOptions) {
        if output.json { return Terminal.print(options.json) }
        let rows = options.sections.flatMap { section in
            section.items.map { item -> JSONValue in
                [
                    "section": .text(section.title), "value": item.value,
                    "display": .string(item.subtitle.map { "\(item.display) (\($0))" } ?? item.display),
                ]
            }
        }
        output.print(rows, columns: ["SECTION": "section", "VALUE": "value", "DISPLAY": "display"])
    }
}
