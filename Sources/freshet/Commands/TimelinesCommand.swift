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

    struct Show: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows one timeline: its state, its current entry and its content.",
            discussion: """
                Examples:
                  freshet timelines show --app com.example.bank --widget w1
                  freshet timelines show --app com.example.bank 0f5c6d1e-9a52-4b7e-8d21-3b9f6a7c4e10 --json
                  freshet timelines show --app com.example.bank --widget w1 --at 2026-01-01T09:00:00Z
                """)

        @Argument(help: "The timeline's id.")
        var timeline: String?

        @Option(help: "The timeline that this widget shows.")
        var widget: String?

        @Option(help: "The app's bundle identifier.")
        var app: String

        @Option(help: "Time of the shown entry (RFC 3339); now by default.", transform: OptionText.time)
        var at: Timestamp?

        @OptionGroup var output: OutputOptions

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
                if output.json {
                    Terminal.print(try JSONValue.parse(detail.encoded(at: at)))
                } else {
                    try print(detail, at: at ?? detail.readAt)
                }
            } catch {
                throw CommandFailure(.failure, "the stored timeline \(detail.id) is not JSON: \(error)")
            }
        }

        private func detail(in store: WidgetStore) async throws -> TimelineDetail {
            if let widget {
                if let detail = try await store.query(.readWidgetTimeline(app: app, widget: widget)).first {
                    return detail
                }
                _ = try await WidgetLookup.widget(widget, of: app, in: store)
                throw CommandFailure(.failure, "the widget \(Text.quoted(widget)) was removed")
            }
            guard let id = timeline.flatMap({ TimelineID($0) }) else {
                throw ValidationError("expected either the id of a timeline or --widget")
            }
            guard let detail = try await store.query(.readTimeline(id: id, app: app)).first else {
                throw CommandFailure(.failure, "app \(Text.quoted(app)) has no timeline \(id)")
            }
            return detail
        }

        private func print(_ detail: TimelineDetail, at time: Timestamp) throws(JSONError) {
            Terminal.print("timeline     \(detail.id)  \(detail.app) \(detail.kind)")
            Terminal.print("shows        \(identity(of: detail))")
            let age = detail.age.map { ", rendered \($0.words) ago" } ?? ", never rendered"
            Terminal.print("state        \(detail.isStale ? "stale" : "fresh")\(age)")
            Terminal.print(
                "generations  requested \(detail.rendered)/\(detail.requested), everyone "
                    + "\(detail.timeline.state.generation)/\(detail.timeline.kind.current) (rendered/current)")
            Terminal.print("next         \(next(of: detail))")
            Terminal.print("last         \(detail.decision?.name ?? "unknown")\(cause(of: detail))")
            let revision = detail.revision.map { "\($0)" } ?? "none"
            Terminal.print("opens        \(detail.url(at: time) ?? "the app")")
            Terminal.print("revision     \(revision), stored \(detail.storedAt?.rfc3339 ?? "never")")
            if let fallback = detail.fallback {
                try print(fallback)
            } else {
                Terminal.print("entry at \(time.rfc3339)")
                let entry = detail.currentEntry(at: time)
                let text = try entry.map { bytes throws(JSONError) in
                    PrettyJSON.text(try JSONValue.parse(Array(bytes)))
                }
                Terminal.print(text ?? "none")
            }
            if let content = detail.content {
                Terminal.print("content")
                Terminal.print(try JSONValue.parse(content))
            }
        }

        private func print(_ fallback: FallbackContent) throws(JSONError) {
            switch fallback {
            case .snapshot(let entry, let storedAt):
                Terminal.print("snapshot, stored \(storedAt.rfc3339), until there is a timeline")
                Terminal.print(try JSONValue.parse(entry))
            case .placeholder(let content, let fetchedAt):
                let source = fetchedAt.map { "made by the provider, \($0.rfc3339)" } ?? "of the manifest"
                Terminal.print("placeholder \(source), until there is a timeline")
                Terminal.print(try JSONValue.parse(content))
            }
        }

        private func identity(of detail: TimelineDetail) -> String {
            let timeline = detail.timeline
            let parts = [timeline.family?.name, timeline.configuration.canonical, timeline.locale, timeline.timeZone]
            let owner = timeline.user.map { "user \($0)" } ?? "everyone"
            return (parts.compactMap { $0 } + [owner]).joined(separator: " · ")
        }

        private func next(of detail: TimelineDetail) -> String {
            guard let next = detail.nextLook else { return "only on request" }
            return next <= detail.readAt
                ? "due now, lane \(detail.lane.name)" : "\(next.rfc3339), lane \(detail.lane.name)"
        }

        private func cause(of detail: TimelineDetail) -> String {
            guard let cause = detail.latestCause else { return "" }
            let topics = EventSource.names
            let topic = topics.indices.contains(Int(cause.topic)) ? topics[Int(cause.topic)] : "topic \(cause.topic)"
            return ", caused by \(topic) partition \(cause.partition) offset \(cause.offset)"
        }
    }
}

/// Names of the input topics, in the order of `EventPosition.topic`.
private enum EventSource {
    static let names = ["pushes", "app changes", "widgets"]
}
