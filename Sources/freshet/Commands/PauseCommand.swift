// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import WidgetAPI
import WidgetModel
import WidgetStore

struct PauseCommand: AppCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Pauses the reloads of an app or of one of its kinds.",
        discussion: """
            Events are still applied, so nothing is lost, but no timeline is fetched, swept or removed until \
            `freshet resume`. Fetches under way are finished. \(OperatorOptions.discussion)

            Examples:
              freshet pause --app com.example.bank --kind RecentPurchases --reason "the bank migrates its database"
              freshet pause --app com.example.bank
            """)

    @Option(help: "Only this kind; all of the app if none is given.", transform: OptionText.identifier)
    var kind: String?

    @OptionGroup var operation: OperatorOptions
    @OptionGroup var options: AppOptions

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        try await change(kind, pausing: true, operation.note, in: store)
    }
}

struct ResumeCommand: AppCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Resumes the reloads of an app or of one of its kinds.",
        discussion: """
            Kinds that were paused individually stay paused when their app is resumed. \(OperatorOptions.discussion)

            Examples:
              freshet resume --app com.example.bank --kind RecentPurchases
              freshet resume --app com.example.bank
            """)

    @Option(help: "Only this kind; all of the app if none is given.", transform: OptionText.identifier)
    var kind: String?

    @OptionGroup var operation: OperatorOptions
    @OptionGroup var options: AppOptions

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        try await change(kind, pausing: false, operation.note, in: store)
    }
}

/// Reason of an operator's action; the operator is the user who runs the command.
struct OperatorOptions: ParsableArguments {
    static let discussion = """
        It is recorded with your user name of the operating system, with sudo that of the user who called it, and with \
        --reason; explain, the API and the console show both.
        """

    @Option(
        help: "Why, for other operators; at most \(OperatorNote.maximumReasonLength) characters.",
        transform: { text in
            if let problem = OperatorNote.reasonProblem(text) { throw ValidationError(problem) }
            return text
        })
    var reason: String?

    var note: OperatorNote {
        let process = ProcessInfo.processInfo
        let user = process.environment["SUDO_USER"] ?? process.userName
        return OperatorNote(by: "\(user) (command line)", reason: reason)
    }
}

extension AppCommand {
    /// Pauses or resumes the app or one of its kinds, and prints the outcome.
    fileprivate func change(
        _ kind: String?, pausing: Bool, _ note: OperatorNote, in store: WidgetStore
    ) async throws {
        guard
            let outcome = pausing
                ? try await store.pause(app: app, kind: kind, note) : try await store.resume(app: app, kind: kind, note)
        else { throw try await store.notFound(kind, of: app) }
        let name = kind.map { "\(app) \($0)" } ?? app
        let text =
            switch (pausing, outcome.isChanged) {
            case (true, true): "paused \(name)"
            case (true, false): "\(name) was paused already, \(outcome.pause?.words ?? "")"
            case (false, true): "resumed \(name)"
            case (false, false): "\(name) was not paused"
            }
        output.print(outcome.json(app: app, kind: kind), or: text)
        if outcome.pause == nil, kind != nil, outcome.isAppPaused {
            Terminal.complain("the app is paused too: its reloads wait until `freshet resume --app \(app)`")
        }
    }
}

struct CancelCommand: AppCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancels the pending bulk work of a kind.",
        discussion: """
            Cancels reloads of everyone, recorded sweeps, and the timelines that they have made due and that are not being \
            fetched yet. Those stay stale until their next reload. Requests for a user, a device or a widget stay, and so \
            do later requests. \(OperatorOptions.discussion)

            Example:
              freshet cancel --app com.example.bank --kind RecentPurchases --reason "the new prices are wrong"
            """)

    @Option(help: "The kind's name.", transform: OptionText.identifier)
    var kind: String

    @OptionGroup var operation: OperatorOptions
    @OptionGroup var options: AppOptions

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        guard let cancellation = try await store.cancelWork(app: app, kind: kind, operation.note) else {
            throw try await store.notFound(kind, of: app)
        }
        output.print(
            ["sweeps": .count(cancellation.sweeps), "timelines": .count(cancellation.timelines)],
            or: "cancelled \(cancellation.sweeps) sweeps, \(cancellation.timelines) timelines")
    }
}
