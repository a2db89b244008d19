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
        subcommands: [Apply.self, Diff.self, List.self, Show.self, Stats.self, Delete.self])

    struct Apply: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Registers the apps and kinds of a manifest.",
            discussion: """
                The manifest is checked as a whole, errors are reported with their lines, and it is applied in one \
                transaction. Kinds that it does not list stay as they are. A provider whose host has an address that is \
                not public is refused, unless providers.allowPrivateNetworks lists it.

                A new app without a signing secret gets a random one. A changed secret leaves the old one valid for 24 \
                hours; `freshet apps rotate-secret` has other times.

                If sharing or variesBy changes, the kind's widgets are then moved to new timelines at the pace of a \
                reload of everyone; `freshet kinds show` shows the progress.

                Examples:
                  freshet kinds apply bank.yaml
                  freshet kinds apply bank.yaml --dry-run --json
                """)

        @Argument(help: "The manifest, YAML.")
        var file: String

        @Flag(help: "Check the manifest and show what it would change.")
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
                KindsCommand.report(changes, json: output.json)
                if !dryRun { try await KeptEvents.tell(of: apps.map(\.name), in: store) }
            }
        }
    }

    struct Diff: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows how a manifest differs from the registered kinds.",
            discussion: """
                The exit status is 0 also if there are differences. Signing secrets are not compared.

                Example:
                  freshet kinds diff bank.yaml
                """)

        @Argument(help: "The manifest, YAML.")
        var file: String

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let manifest = try Manifest.read(path: file, environment: nil)
            KindsCommand.report(try await store.difference(manifest.apps.map(\.definition)), json: output.json)
        }
    }

    struct List: StoreCommand {
        static let configuration = CommandConfiguration(abstract: "Lists the registered kinds.")

        @Option(help: "Only kinds of this app.")
        var app: String?

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let kinds = try await store.pool.query(.listKinds(app: app))
            let moves = try await KindsCommand.moves(in: store)
            output.print(
                kinds, { $0.json(move: moves[$0.id]) }, columns: "APP", "KIND", "STATE", "SHARING", "SPACING",
                "MAX BATCH", "PROVIDER",
                cells: { kind in
                    let definition = kind.definition
                    return [
                        kind.app, definition.name, kind.state(move: moves[kind.id]), definition.sharing.name,
                        kind.isDeveloperMode ? "none (developer mode)" : DurationText.write(definition.minimumSpacing),
                        "\(definition.maxBatch)", definition.providerURL,
                    ]
                })
        }
    }

    struct Show: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows one kind as it is registered, as JSON.",
            discussion: """
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
            let left = found.isRetired ? try await store.pool.query(count).first : nil
            Terminal.print(found.json(move: move, timelinesLeft: left))
        }
    }

    /// The moves under way, by the kind's row id.
    private static func moves(in store: WidgetStore) async throws -> [Int32: KindMove] {
        Dictionary(try await store.pool.query(.listMoves()).map { ($0.kindID, $0) }) { $1 }
    }

    private static func report(_ changes: [KindChange], json: Bool) {
        if json {
            Terminal.print(.array(changes.map(\.json)))
            return
        }
        for change in changes {
            let fields = change.fields.isEmpty ? "" : ": " + change.fields.joined(separator: ", ")
            let moving = change.moving.map { "; \(count($0)) timelines will move" } ?? ""
            Terminal.print("\(change.action.mark) \(change.app) \(change.kind)\(fields)\(moving)")
        }
    }
}

extension KindChange.Action {
    /// As a column of `diff` has it.
    fileprivate var mark: String {
        switch self {
        case .add: "+ add      "
        case .change: "~ change   "
        case .keep: "= keep     "
        case .unlisted: "? unlisted "
        }
    }
}

extension Manifest {
    fileprivate var secrets: [String: [UInt8]] {
        Dictionary(
            apps.compactMap { app in app.signingSecret.map { (app.definition.name, $0.bytes) } },
            uniquingKeysWith: { $1 })
    }
}

extension RegisteredKind {
    /// In a word or two.
    fileprivate func state(move: KindMove?) -> String {
        var words: [String] = []
        if isRetired { words.append("retired") }
        if pausedAt != nil { words.append("paused") }
        if appPausedAt != nil { words.append("app paused") }
        if move != nil { words.append("moving") }
        return words.isEmpty ? "live" : words.joined(separator: ", ")
    }
}

enum KeptEvents {
    private static let countLimit = 100_000

    /// Prints the hints on standard error, with the command that replays the events.
    static func tell(of apps: [String], in store: WidgetStore) async throws {
        for app in apps {
            for cause in [DeadLetterCause.unknownApp, .unknownKind] {
                let filter = DeadLetterFilter(owner: .app(app), causes: [cause])
                let count =
                    try await store.pool.query(Statements.countDeadLetters(filter, limit: countLimit)).first ?? 0
                guard count > 0 else { continue }
                let many = count < countLimit ? "\(count)" : "at least \(count)"
                let why = cause == .unknownApp ? "while it was not registered" : "for kinds that it did not have"
                Terminal.complain(
                    "\(many) events of \(app) were kept \(why): "
                        + "`freshet dead-letters replay --app \(app) --cause \(cause.rawValue)` applies them")
            }
        }
    }
}
