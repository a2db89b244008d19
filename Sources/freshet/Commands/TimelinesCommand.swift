// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import WidgetAPI
import WidgetModel
import WidgetStore

struct TimelinesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "timelines",
        abstract: "Shows timelines.",
        subcommands: [Show.self])

    struct Show: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows one timeline: its state and its entries, with the one that a widget shows now.",
            discussion: """
                The entry with * is shown now. Until there is a timeline, that is its snapshot or its placeholder. With --json \
                it is the member shown.

                Examples:
                  freshet timelines show --app com.example.bank --widget w1
                  freshet timelines show --app com.example.bank 0f5c6d1e-9a52-4b7e-8d21-3b9f6a7c4e10
                  freshet timelines show --app com.example.bank --widget w1 --at now+1h --json
                """)

        @Argument(help: "The timeline's id.")
        var timeline: String?

        @Option(help: "The timeline that this widget shows.")
        var widget: String?

        @Option(help: "Time of the shown entry: \(OptionText.timeForm); now by default.", transform: OptionText.time)
        var at: Timestamp?

        @OptionGroup var options: AppOptions

        func validate() throws {
            guard (timeline == nil) != (widget == nil) else {
                throw ValidationError("expected either the id of a timeline or --widget")
            }
            if let timeline, TimelineID(timeline) == nil {
                throw ValidationError("\(timeline): expected the id of a timeline, a UUID")
            }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let detail = try await detail(in: store)
            do throws(JSONError) {
                let document = try detail.json(at: at)
                output.print(document, or: detail.lines(document, at: at ?? detail.readAt).joined(separator: "\n"))
            } catch {
                throw CommandFailure(.failure, "the stored timeline \(detail.id) is not JSON: \(error)")
            }
        }

        private func detail(in store: WidgetStore) async throws -> TimelineDetail {
            if let id = timeline.flatMap({ TimelineID($0) }) {
                if let detail = try await store.query(.readTimeline(id: id, app: app)).first { return detail }
                throw CommandFailure(.failure, "app \(Text.quoted(app)) has no timeline \(id)")
            }
            return try await store.timeline(ofWidget: widget ?? "", of: app)
        }
    }
}

extension TimelineDetail {
    /// The timeline as text: one labelled statement per line, and its entries as a table.
    ///
    /// - Parameters:
    ///   - document: its JSON for the time.
    ///   - time: time of the shown entry.
    fileprivate func lines(_ document: JSONValue, at time: Timestamp) -> [String] {
        var lines: [String] = []
        func add(_ label: String, _ text: String) {
            lines.append(label + String(repeating: " ", count: max(1, 11 - label.count)) + text)
        }
        let identity = [
            "\(app) \(kind)", timeline.family?.name, timeline.locale, timeline.timeZone,
            timeline.user.map { "user \(Text.printable($0, maximum: 256))" }, timeline.configuration.canonical,
        ]
        add("timeline", id.description)
        add("of", identity.compactMap(\.self).joined(separator: " · "))
        add("state", isStale ? "stale: requested after the last render" : "all requests are rendered")
        if let nextLook { add("next", nextLook.words(from: readAt)) }
        if let revision, let storedAt { add("stored", "revision \(revision), \(storedAt.words(from: readAt))") }
        if let policy = document["content"]?["policy"] { add("policy", Self.text(policy)) }
        if let url { add("link", Text.printable(url, maximum: 2_048)) }
        return lines + [""] + entries(document, at: time)
    }

    /// The entries; the shown one is marked.
    private func entries(_ document: JSONValue, at time: Timestamp) -> [String] {
        let shown = document["shown"] ?? .null
        guard let entries = document["content"]?["entries"]?.arrayValue else {
            let source = shown["source"]?.stringValue.map { " of the \($0)" } ?? ""
            return ["* \(shown["state"]?.stringValue ?? "")\(source)  " + Self.text(shown["entry"] ?? .null)]
        }
        let date = document["currentEntry"]?["date"]
        return TextTable(
            "  DATE", "ENTRY",
            rows: entries.map { entry in
                let mark = date != nil && entry["date"] == date ? "* " : "  "
                var members = entry.objectValue ?? JSONObject()
                members["date"] = nil
                return [mark + (entry["date"]?.stringValue ?? "-"), Self.text(.object(members))]
            }
        ).lines
    }

    private static func text(_ value: JSONValue) -> String {
        Text.printable(String(decoding: value.encoded, as: UTF8.self), maximum: 2_000)
    }
}

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
