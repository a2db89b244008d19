import ArgumentParser
import FreshetService
import WidgetModel
import WidgetRepresentation
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
                Terminal.print(try JSONValue.parse(detail.encoded(at: at)))
            } catch {
                throw CommandFailure(.failure, "the stored timeline \(detail.id) is not JSON: \(error)")
            }
        }

        private func detail(in store: WidgetStore) async throws -> TimelineDetail {
            if let id = timeline.flatMap({ TimelineID($0) }) {
                if let detail = try await store.query(.readTimeline(id: id, app: app)).first { return detail }
                throw CommandFailure(.failure, "app \(Text.quoted(app)) has no timeline \(id)")
            }
            return try await WidgetLookup.timeline(of: widget ?? "", in: app, store)
        }
    }
}
