// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import JSON
import WidgetModel
import WidgetStore

/// Actions of operators on an app or a kind: each is shown with what it touches, and runs once it is confirmed.
extension ConsoleVisit {
    /// Most recorded actions on a page.
    private static let shownActions = 20

    private static let words: [RecordedAction.Name: (verb: String, effect: String)] = [
        .pause: ("Pause", "No timeline is fetched until someone resumes it; events are still applied."),
        .resume: ("Resume", "Timelines that are due are fetched at once."),
        .cancel: (
            "Cancel reloads of everyone",
            "Timelines that are not being fetched yet stay stale until their next reload; requests for single users, "
                + "devices and widgets remain."
        ),
        .reload: (
            "Reload everyone", "Each timeline is fetched once, without budget and spacing, as workers have room."
        ),
    ]

    /// Runs the action of the path, on a kind or on the app. Without a confirmation it shows what would happen.
    func act(onKind kind: String?) async throws -> Response {
        let text = try call.path("action")
        if text == "test", let kind {
            let trial = try await run("testProvider") { try await $0.testProvider(of: kind, for: $1) }
            return try await providers(tested: trial).response()
        }
        guard let action = RecordedAction.Name(rawValue: text), Self.words[action] != nil,
            kind != nil || [.pause, .resume].contains(action)
        else { throw Problem.noRoute(path) }
        guard call.text("confirmed") == "yes" else { return try await confirmation(of: action, kind).response() }
        let note = try call.operatorNote()
        switch (action, kind) {
        case (.cancel, let kind?):
            try await run("consoleCancel") { try await $0.cancel(kind, note, for: $1) }
        case (.reload, let kind?):
            try await run("requestReload", .accepted) { try await $0.reloadEveryone(kind, note, for: $1) }
        default:
            try await run("\(action.rawValue)\(kind == nil ? "App" : "Kind")") {
                try await $0.set(isPaused: action == .pause, kind: kind, note, for: $1)
            }
        }
        return finished(action.rawValue, at: "/actions", [("kind", kind)])
    }

    /// Asks for a reason, with what the action would touch.
    private func confirmation(of action: RecordedAction.Name, _ kind: String?) async throws -> ConsolePage {
        let (timelines, work) = try await run("consolePreview") { routes, caller in
            if let kind { _ = try await routes.kind(kind, for: caller) }
            return try await routes.operatedWork(kind: kind, for: caller)
        }
        let words = Self.words[action] ?? ("", "")
        let limit = WidgetStore.timelineCountLimit
        let all = "\(timelines < limit ? "" : "at least ")\(Self.counted(timelines, "timeline"))"
        let touched =
            switch action {
            case .resume: "\(Self.counted(work?.due ?? 0, "timeline")) due now, of \(all)"
            case .cancel:
                "\(Self.counted(work?.everyone ?? 0, "timeline")) in \(Self.counted(work?.sweeps ?? 0, "sweep"))"
                    + " and lists of everyone, of \(all)"
            case .pause, .reload, .replay, .discard: all
            }
        let back = kind.map { "/kinds/\(Text.percentEncoded($0))" } ?? "/kinds"
        return page(
            "action", title: "\(words.verb)?",
            [
                "target": kind.map { "\(app) \($0)" } ?? app, "verb": words.verb, "effect": words.effect,
                "touched": touched, "back": Console.base + back, "isDanger": [.pause, .cancel].contains(action),
                "maximumReason": "\(OperatorNote.maximumReasonLength)",
                "pause": action == .resume ? try await pause(of: kind)?.json ?? .null : .null,
            ])
    }

    /// The pause in force of a kind, or of the app.
    private func pause(of kind: String?) async throws -> OperatorAction? {
        let kinds = try await run("listKinds") { try await $0.kinds(for: $1) }.map(\.kind)
        guard let kind else { return kinds.lazy.compactMap(\.appPause).first }
        return kinds.first { Text.equal($0.definition.name, kind) }?.pause
    }

    private static func counted(_ count: Int, _ noun: String) -> String {
        "\(ConsolePage.grouped("\(count)")) \(noun)\(count == 1 ? "" : "s")"
    }

    /// Progress of the work that actions concern, and the actions of operators on the app or a kind.
    func actions() async throws -> ConsolePage {
        let kind = try call.identifier("kind")
        let (work, actions) = try await run("consoleActions") { routes, caller in
            if let kind { _ = try await routes.kind(kind, for: caller) }
            return (
                try await routes.store.query(.operatedWork(app: caller.app, kind: kind)).first,
                try await routes.store.query(.listActions(app: caller.app, kind: kind, limit: Self.shownActions))
            )
        }
        let items = actions.map { action -> JSONValue in
            action.action.json.adding("name", .string(action.name.rawValue)).adding("kind", .text(action.kind))
                .adding("affected", .count(action.affected))
        }
        var view: [String: Any] = [
            "actions": JSONValue.array(items), "isEmpty": items.isEmpty, "message": message,
            "back": Console.base + (kind.map { "/kinds/\(Text.percentEncoded($0))" } ?? "/kinds"),
        ]
        if let work {
            view["due"] = Self.counted(work.due, "timeline")
            view["leased"] = Self.counted(work.leased, "timeline")
            view["everyone"] = Self.counted(work.everyone, "timeline")
            view["sweeps"] = Self.counted(work.sweeps, "sweep")
            view["isDone"] = work.due + work.leased + work.everyone + work.sweeps == 0
            if kind != nil, let share = work.listedShare { view["share"] = "\(Int((100 * share).rounded(.down))) %" }
        }
        var page = page("actions", title: kind.map { "Actions on \($0)" } ?? "Actions on the app", view)
        page.live = "\(Console.base)/live"
        return page
    }
}
