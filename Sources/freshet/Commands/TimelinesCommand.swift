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
            abstract: "Shows one timeline as JSON: its state, its current entry and its content.",
            discussion: """
                The member shown is what a widget shows now: the entry of the timeline, or its snapshot or placeholder until \
                there is one.

                Examples:
                  freshet timelines show --app com.example.bank --widget w1
                  freshet timelines show --app com.example.bank 0f5c6d1e-9a52-4b7e-8d21-3b9f6a7c4e10
                  freshet timelines show --app com.example.bank --widget w1 --at 2026-01-01T09:00:00Z
                """)

        @Argument(help: "The timeline's id.")
        var timeline: String?

        @Option(help: "The timeline that this widget shows.")
        var widget: String?

        @Option(help: "Time of the shown entry (RFC 3339); now by default.", transform: OptionText.time)
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
                Terminal.print(try detail.json(at: at))
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
