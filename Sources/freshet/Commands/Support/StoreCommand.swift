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

/// Confirmation of a change that cannot be undone.
struct Confirmation: ParsableArguments {
    @Flag(help: "Do not ask.")
    var yes = false

    /// Asks, unless `--yes` is given.
    ///
    /// - Parameters:
    ///   - what: the action, such as "erasing".
    ///   - question: question to answer with yes or no.
    ///   - refusal: message if the answer is no.
    /// - Throws: `CommandFailure` if the answer is no or nobody can be asked.
    func ask(_ what: String, question: String, refusal: String) async throws {
        if yes { return }
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(.usage, "\(what) cannot be undone: give --yes when nobody can be asked")
        }
        Terminal.complain("\(question) This cannot be undone. [y/N]")
        let lines = LineReader(.standardInput, name: "standard input", maximumBytes: 1_024)
        var iterator = lines.makeAsyncIterator()
        let answer = try await iterator.next()?.bytes.map { String(decoding: $0, as: UTF8.self) } ?? ""
        guard ["y", "yes"].contains(answer.lowercased()) else { throw CommandFailure(.failure, refusal) }
    }
}

/// Look-up of kinds, with failures for commands.
enum KindLookup {
    static func kind(_ kind: String, of app: String, in store: WidgetStore) async throws -> RegisteredKind {
        let kinds = try await store.query(.listKinds(app: app))
        guard let found = kinds.first(where: { Text.equal($0.definition.name, kind) }) else {
            throw notFound(kind, of: app, among: kinds)
        }
        return found
    }

    static func notFound(_ kind: String?, of app: String, in store: WidgetStore) async throws -> CommandFailure {
        notFound(kind, of: app, among: try await store.query(.listKinds(app: app)))
    }

    private static func notFound(_ kind: String?, of app: String, among kinds: [RegisteredKind]) -> CommandFailure {
        guard let kind, !kinds.isEmpty else {
            return CommandFailure(
                .failure, "no app \(Text.quoted(app)) with kinds is registered; `freshet kinds list` shows all")
        }
        let meant = Suggestion.closest(to: kind, among: kinds.filter { !$0.isRetired }.map(\.definition.name))
        return CommandFailure(
            .failure,
            "app \(Text.quoted(app)) has no kind \(Text.quoted(kind))\(meant.map { "; did you mean \($0)?" } ?? "")")
    }
}
