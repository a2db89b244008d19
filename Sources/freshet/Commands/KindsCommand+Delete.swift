import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetStore

extension KindsCommand {
    struct Delete: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Retires a kind: its widgets and timelines are removed.",
            discussion: """
                The kind is not fetched any more, its widgets and timelines cannot be read, and its events become dead \
                letters. The workers remove its widgets and publish a tombstone for each timeline; `freshet kinds show` \
                shows how many are left. When none is, a manifest may register the kind again.

                Example:
                  freshet kinds delete --app com.example.bank DueDate --yes
                """)

        @Option(help: "The app's bundle identifier.", transform: OptionText.identifier)
        var app: String

        @Argument(help: "The kind's name.", transform: OptionText.identifier)
        var kind: String

        @Flag(help: "Do not ask.")
        var yes = false

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            if !yes {
                try await Confirmation.ask(
                    "removing a kind's widgets",
                    question: "Remove the kind \(Text.quoted(kind)) of \(Text.quoted(app)) with all its widgets?",
                    refusal: "nothing was removed")
            }
            guard let retirement = try await store.retire(app: app, kind: kind) else {
                throw try await KindLookup.notFound(kind, of: app, in: store)
            }
            report(retirement)
        }

        private func report(_ retirement: Retirement) {
            let left = KindsCommand.count(retirement.timelines)
            output.print(
                [
                    "app": .string(app), "kind": .string(kind), "changed": .bool(retirement.isChanged),
                    "timelinesLeft": .count(retirement.timelines), "paused": .bool(retirement.isPaused),
                ],
                or: retirement.isChanged
                    ? "retired \(app) \(kind): \(left) timelines are to be removed"
                    : "\(app) \(kind) was retired already: \(left) timelines are left")
            if !output.json, retirement.isPaused, retirement.timelines > 0 {
                Terminal.complain("it is paused: nothing is removed until `freshet resume`")
            }
        }
    }

    /// A number of timelines that is counted up to a limit.
    static func count(_ timelines: Int) -> String {
        timelines < WidgetStore.timelineCountLimit ? "\(timelines)" : "at least \(timelines)"
    }
}
