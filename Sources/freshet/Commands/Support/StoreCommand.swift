import ArgumentParser
import Foundation
import FreshetService
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

/// A command on the data of one app.
protocol AppCommand: StoreCommand {
    var options: AppOptions { get }
}

extension AppCommand {
    var app: String { options.app }
    var output: OutputOptions { options.output }
}

/// Confirmation of a change that cannot be undone.
struct Confirmation: ParsableArguments {
    @Flag(help: "Do not ask.")
    var yes = false

    /// Asks, unless `--yes` is given.
    ///
    /// - Parameters:
    ///   - question: question to answer with yes or no, such as "Erase it?".
    ///   - refusal: message if the answer is no.
    /// - Throws: `CommandFailure` if the answer is no or standard input is not a terminal.
    func ask(_ question: String, refusal: String) throws {
        if yes { return }
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(.usage, "this cannot be undone: standard input is not a terminal, so give --yes")
        }
        Terminal.complain("\(question) This cannot be undone. [y/N]")
        guard ["y", "yes"].contains(readLine()?.lowercased()) else { throw CommandFailure(.failure, refusal) }
    }
}

/// Look-up of kinds, with failures for commands.
enum KindLookup {
    static func kind(_ kind: String, of app: String, in store: WidgetStore) async throws -> RegisteredKind {
        let kinds = try await store.query(.listKinds(app: app))
        guard let found = kinds.first(where: { Text.equal($0.name, kind) }) else {
            throw notFound(kind, of: app, among: kinds)
        }
        switch found {
        case .readable(let kind): return kind
        case .unreadable(let kind): throw CommandFailure(.failure, kind.message)
        }
    }

    static func notFound(_ kind: String?, of app: String, in store: WidgetStore) async throws -> CommandFailure {
        notFound(kind, of: app, among: try await store.query(.listKinds(app: app)))
    }

    private static func notFound(_ kind: String?, of app: String, among kinds: [StoredKind]) -> CommandFailure {
        guard let kind, !kinds.isEmpty else {
            return CommandFailure(
                .failure, "no app \(Text.quoted(app)) with kinds is registered; `freshet kinds list` shows all")
        }
        let meant = Suggestion.word(for: kind, among: kinds.filter { !$0.isRetired }.map(\.name))
        return CommandFailure(.failure, "app \(Text.quoted(app)) has no kind \(Text.quoted(kind))\(meant)")
    }
}

extension Suggestion {
    /// `; did you mean name?` for a message about a word of the command line, or nothing.
    static func word(for name: String, among candidates: some Sequence<String>) -> String {
        closest(to: name, among: candidates).map { "; did you mean \($0)?" } ?? ""
    }
}
