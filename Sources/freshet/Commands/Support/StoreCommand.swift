// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import WidgetAPI
import WidgetModel
import WidgetStore

/// A command on the store of the configured database.
protocol StoreCommand: AsyncParsableCommand {
    var output: OutputOptions { get }

    func run(_ store: WidgetStore, _ settings: Settings) async throws
}

extension StoreCommand {
    func run() async throws {
        try await output.settings.withStore { store, settings in try await run(store, settings) }
    }
}

struct AppOptions: ParsableArguments {
    @Option(help: "The app's bundle identifier.", transform: OptionText.identifier)
    var app: String

    @OptionGroup var output: OutputOptions
}

/// A command on the data of one registered app.
protocol AppCommand: StoreCommand {
    var options: AppOptions { get }
}

extension AppCommand {
    var app: String { options.app }
    var output: OutputOptions { options.output }

    func run() async throws {
        try await output.settings.withStore { store, settings in
            try await store.requireApp(app)
            try await run(store, settings)
        }
    }
}

/// Confirmation of a change that cannot be undone, or that others have to follow.
struct Confirmation: ParsableArguments {
    @Flag(help: "Do not ask.")
    var yes = false

    /// Asks, unless `--yes` is given.
    ///
    /// - Parameters:
    ///   - question: question to answer with yes or no, such as "Erase it?".
    ///   - consequence: what the change means, as a sentence.
    ///   - refusal: message if the answer is no.
    /// - Throws: `CommandFailure` if the answer is no or standard input is not a terminal.
    func ask(_ question: String, consequence: String = "This cannot be undone.", refusal: String) throws {
        if yes { return }
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(
                .usage, "\(question) \(consequence) Standard input is not a terminal, so give --yes")
        }
        Terminal.complain("\(question) \(consequence) [y/N]")
        guard ["y", "yes"].contains(readLine()?.lowercased()) else { throw CommandFailure(.failure, refusal) }
    }
}

/// Look-ups with failures for commands.
extension WidgetStore {
    func requireApp(_ name: String) async throws {
        let names = try await query(.readSecrets(app: nil)).map(\.name)
        guard !names.contains(where: { Text.equal($0, name) }) else { return }
        throw Self.notRegistered(name, among: names)
    }

    /// Error for an app that is not registered.
    static func notRegistered(_ name: String, among names: [String] = []) -> CommandFailure {
        let hint = name.hint(among: names)
        let advice = hint.isEmpty ? "; `freshet apps list` shows all" : hint
        return CommandFailure(.failure, "no app \(Text.quoted(name)) is registered\(advice)")
    }

    func kind(_ kind: String, of app: String) async throws -> RegisteredKind {
        let kinds = try await query(.listKinds(app: app))
        guard let found = kinds.first(where: { Text.equal($0.name, kind) }) else {
            throw Self.notFound(kind, of: app, among: kinds)
        }
        switch found {
        case .readable(let kind): return kind
        case .unreadable(let kind): throw CommandFailure(.failure, kind.message)
        }
    }

    /// Error for an app, or a kind of an app, that is not registered.
    func notFound(_ kind: String?, of app: String) async throws -> CommandFailure {
        Self.notFound(kind, of: app, among: try await query(.listKinds(app: app)))
    }

    private static func notFound(_ kind: String?, of app: String, among kinds: [StoredKind]) -> CommandFailure {
        guard let kind, !kinds.isEmpty else {
            return CommandFailure(
                .failure, "no app \(Text.quoted(app)) with kinds is registered; `freshet kinds list` shows all")
        }
        let hint = kind.hint(among: kinds.filter { !$0.isRetired }.map(\.name))
        return CommandFailure(.failure, "app \(Text.quoted(app)) has no kind \(Text.quoted(kind))\(hint)")
    }

    func widget(_ id: String, of app: String) async throws -> WidgetDetail {
        guard let widget = try await query(.listWidgets(WidgetFilter(app: app, widget: id), limit: 1)).first else {
            throw CommandFailure(.failure, "app \(Text.quoted(app)) has no widget \(Text.quoted(id))")
        }
        return widget
    }

    func timeline(ofWidget id: String, of app: String) async throws -> TimelineDetail {
        if let detail = try await query(.readWidgetTimeline(app: app, widget: id)).first { return detail }
        _ = try await widget(id, of: app)
        throw CommandFailure(.failure, "the widget \(Text.quoted(id)) was removed")
    }
}

extension Figure {
    /// A number that was counted up to a limit.
    static func count(_ number: Int, limit: Int) -> String {
        number < limit ? "\(number)" : "at least \(number)"
    }
}
