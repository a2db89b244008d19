import ArgumentParser
import FreshetService
import WidgetModel
import WidgetStore

extension WidgetsCommand {
    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Imports placed widgets from a file of JSON lines, in bulk.",
            discussion: """
                Each line is the data of a freshet.widget.placed.v1 event, with an optional "time" (the time of the \
                import if there is none). An older time never overrides a newer widget. New timelines are due at once, \
                after everything that is more urgent. What is wrong with a line is told with its number; the others \
                are imported all the same, and the exit status is 1.

                Examples:
                  freshet widgets import placements.jsonl
                  zcat placements.jsonl.gz | freshet widgets import -

                A line:
                  {"app":"com.example.bank","widget":"w1","user":"u42","device":"d1","kind":"DueDate",\
                "family":"systemSmall","environment":{"locale":"en-US","timeZone":"Etc/UTC"}}
                """)

        @Argument(help: "The file; - is standard input.")
        var file: String

        @Flag(help: "Print the counts as JSON.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func run() async throws {
            let reader = try LineReader.open(file, maximumBytes: PlacementLines.maximumBytes)
            let summary = try await settings.withStore { store, _ in
                let directory = try await DirectoryCache(pool: store.pool).refresh()
                let lines = PlacementLines(directory: directory, now: WallClock.now())
                return try await WidgetImport(store: store, lines: lines).run(
                    reader,
                    complain: {
                        Terminal.endProgress()
                        Terminal.complain($0)
                    },
                    progress: { Terminal.progress("\($0) lines") })
            }
            Terminal.endProgress()
            if json {
                Terminal.printLine([
                    "widgets": .count(summary.counts.widgets),
                    "timelines": .count(summary.counts.timelines),
                    "older": .count(summary.counts.older),
                    "refused": .count(summary.refused),
                ])
            } else {
                Terminal.print(
                    "imported \(summary.counts.widgets) widgets, \(summary.counts.timelines) new timelines; "
                        + "\(summary.counts.older) were older than what is stored, \(summary.refused) lines refused")
            }
            guard summary.refused == 0 else { throw CommandFailure(.failure, "not all lines were imported") }
        }
    }
}

struct WidgetImport: Sendable {
    struct Summary: Sendable {
        var counts = ImportCounts()
        var refused = 0
    }

    let store: WidgetStore
    let lines: PlacementLines
    var chunk = 10_000

    /// - Parameters:
    ///   - complain: called with a message for each refused line.
    ///   - progress: called with the number of lines after each chunk.
    func run(_ reader: LineReader, complain: (String) -> Void, progress: (Int) -> Void) async throws -> Summary {
        var summary = Summary()
        summary.refused = try await reader.chunks(of: chunk, decode: lines.widget, complain: complain) { widgets in
            let counts = try await store.importWidgets(widgets.map(\.value))
            summary.counts.widgets += counts.widgets
            summary.counts.timelines += counts.timelines
            summary.counts.older += counts.older
            progress(widgets.last?.line ?? 0)
            return true
        }
        return summary
    }
}
