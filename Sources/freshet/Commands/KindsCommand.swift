import ArgumentParser
import Foundation
import FreshetService
import PostgresClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

struct KindsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kinds",
        abstract: "Registers apps and their kinds of widgets from a manifest, shows them, and retires them.",
        subcommands: [
            Apply.self, List.self, Show.self, Stats.self, Delete.self, ImportIntents.self,
        ])

    struct Apply: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Registers the apps and kinds of a manifest.",
            discussion: """
                The manifest is checked as a whole, errors are reported with their lines, and it is applied in one \
                transaction. Kinds that it does not list stay as they are. A provider whose host has an address that is \
                not public is refused, unless providers.allowPrivateNetworks lists it.

                A new app without a signing secret gets a random one. A changed secret leaves the old one valid for 24 \
                hours; `freshet apps rotate-secret` has other times.

                If sharing, variesBy or the parameters of the intent change, the kind's widgets are then moved to new timelines at the pace of a \
                reload of everyone; `freshet kinds show` shows the progress.

                Examples:
                  freshet kinds apply bank.yaml
                  freshet kinds apply bank.yaml --dry-run --json
                """)

        @Argument(help: "The manifest, YAML.")
        var file: String

        @Flag(help: "Check the manifest and show how it differs from the registered kinds, without changes.")
        var dryRun = false

        @OptionGroup var output: OutputOptions

        func run() async throws {
            let manifest = try Manifest.read(path: file, environment: ProcessInfo.processInfo.environment)
            try await output.settings.withStore { store, settings in
                let apps = manifest.apps.map(\.definition)
                try await ProviderCheck(settings.providers).check(apps, file: file)
                let changes: [KindChange]
                if dryRun {
                    changes = try await store.difference(apps)
                } else {
                    changes = try await store.apply(
                        apps, secrets: manifest.secrets, freshSecret: { SigningSecret.random().bytes })
                }
                let lines = changes.map { change in
                    let fields = change.fields.isEmpty ? "" : ": " + change.fields.joined(separator: ", ")
                    let moving = change.moving.map {
                        "; \(NumberText.upTo(WidgetStore.timelineCountLimit, $0)) timelines will move"
                    }
                    return "\(change.action.mark) \(change.app) \(change.kind)\(fields)\(moving ?? "")"
                }
                output.print(.array(changes.map(\.json)), or: lines.joined(separator: "\n"))
                if !dryRun { for app in apps { try await reportKeptEvents(of: app.name, in: store) } }
            }
        }

        /// Prints on standard error which events wait for the app's registration, with the command that replays them.
        private func reportKeptEvents(of app: String, in store: WidgetStore) async throws {
            for (cause, why) in [
                (DeadLetterCause.unknownApp, "while it was not registered"),
                (.unknownKind, "for kinds that it did not have"),
                (.unreadable, "for kinds or widgets that an older version could not read"),
            ] {
                let filter = DeadLetterFilter(owner: .app(app), causes: [cause])
                let count = try await store.query(Statements.countDeadLetters(filter, limit: 100_000)).first ?? 0
                guard count > 0 else { continue }
                Terminal.complain(
                    "\(NumberText.upTo(100_000, count)) events of \(app) were kept \(why): "
                        + "`freshet dead-letters replay --app \(app) --cause \(cause.rawValue)` applies them")
            }
        }
    }

    struct List: StoreCommand {
        static let configuration = CommandConfiguration(abstract: "Lists the registered kinds.")

        @Option(help: "Only kinds of this app.")
        var app: String?

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let kinds = try await store.query(.listKinds(app: app))
            let moves = try await KindsCommand.moves(in: store)
            if output.json {
                return Terminal.print(
                    .array(
                        kinds.map { kind in
                            switch kind {
                            case .readable(let kind): kind.json(move: moves[kind.id])
                            case .unreadable(let kind): kind.json
                            }
                        }))
            }
            TextTable(
                "APP", "KIND", "STATE", "SHARING", "SPACING", "MAX BATCH", "PROVIDER",
                rows: kinds.map { kind in
                    guard case .readable(let kind) = kind else {
                        return [kind.app, kind.name, "unreadable", "", "", "", ""]
                    }
                    let definition = kind.definition
                    return [
                        kind.app, definition.name, kind.state(move: moves[kind.id]), definition.sharing.name,
                        kind.isDeveloperMode ? "none (developer mode)" : DurationText.write(definition.minimumSpacing),
                        "\(definition.maxBatch)", definition.providerURL,
                    ]
                }
            ).printed()
        }
    }

    struct Show: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows one kind as it is registered, as JSON.",
            discussion: """
                widgetsWithMisfits is the number of widgets with values that a changed intent does not allow any more: \
                defaults take their place. `freshet widgets show` names them.

                Example:
                  freshet kinds show com.example.bank RecentPurchases
                """)

        @Argument(help: "The app's bundle identifier.")
        var app: String

        @Argument(help: "The kind's name.")
        var kind: String

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let found = try await KindLookup.kind(kind, of: app, in: store)
            let move = try await KindsCommand.moves(in: store)[found.id]
            let count = Statements.countTimelines(kindID: found.id, limit: WidgetStore.timelineCountLimit)
            let left = found.isRetired ? try await store.query(count).first : nil
            let misfits = try await store.query(.countMisfits(kindID: found.id)).first
            Terminal.print(found.json(move: move, timelinesLeft: left, widgetsWithMisfits: misfits))
        }
    }

    struct Delete: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Retires a kind: its widgets and timelines are removed.",
            discussion: """
                The kind is not fetched any more, its widgets and timelines cannot be read, and its events become dead \
                letters. The workers remove its widgets and publish a tombstone for each timeline; `freshet kinds show` \
                shows how many are left. When none is, a manifest may register the kind again.

                Example:
                  freshet kinds delete --app com.example.bank DueDate --yes
                """)

        @Argument(help: "The kind's name.", transform: OptionText.identifier)
        var kind: String

        @OptionGroup var confirmation: Confirmation
        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            try confirmation.ask(
                "Remove the kind \(Text.quoted(kind)) of \(Text.quoted(app)) with all its widgets?",
                refusal: "nothing was removed")
            guard let retirement = try await store.retire(app: app, kind: kind) else {
                throw try await KindLookup.notFound(kind, of: app, in: store)
            }
            let left = NumberText.upTo(WidgetStore.timelineCountLimit, retirement.timelines)
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

    /// The moves under way, by the kind's row id.
    private static func moves(in store: WidgetStore) async throws -> [Int32: KindMove] {
        Dictionary(try await store.query(.listMoves()).map { ($0.kindID, $0) }) { $1 }
    }
}

extension KindChange.Action {
    /// First column of the differences.
    fileprivate var mark: String {
        switch self {
        case .add: "+ add      "
        case .change: "~ change   "
        case .keep: "= keep     "
        case .unlisted: "? unlisted "
        }
    }
}

extension RegisteredKind {
    /// State in a word or two.
    fileprivate func state(move: KindMove?) -> String {
        var words: [String] = []
        if isRetired { words.append("retired") }
        if pausedAt != nil { words.append("paused") }
        if appPausedAt != nil { words.append("app paused") }
        if move != nil { words.append("moving") }
        return words.isEmpty ? "live" : words.joined(separator: ", ")
    }
}
