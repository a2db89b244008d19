import ArgumentParser
import Crypto
import Foundation
import PostgresClient
import WidgetAPI
import WidgetModel
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
                The manifest is checked as a whole, and everything that is wrong is told with its line. It is applied \
                in one transaction. Kinds that it does not list are left as they are.

                An app that is given no signing secret gets a random one when it is new, and keeps its own otherwise. \
                Where the secret is another one than before, the one before stays valid beside it for 24 hours; \
                `freshet apps rotate-secret` lets one choose.

                Where sharing or variesBy changes, the kind's widgets are moved to new timelines afterwards, at the \
                pace of a reload of everyone; `freshet kinds show` tells how far that is.

                Examples:
                  freshet kinds apply bank.yaml
                  freshet kinds apply bank.yaml --dry-run --json
                """)

        @Argument(help: "The manifest, YAML.")
        var file: String

        @Flag(help: "Check the manifest and tell what it would change, without changing it.")
        var dryRun = false

        @Flag(help: "Print JSON.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func run() async throws {
            let manifest = try Manifest.read(path: file, environment: ProcessInfo.processInfo.environment)
            try await settings.withStore { store, _ in
                let apps = manifest.apps.map(\.definition)
                let changes: [KindChange]
                if dryRun {
                    changes = try await store.difference(apps)
                } else {
                    changes = try await store.apply(
                        apps, secrets: manifest.secrets, freshSecret: { SymmetricKey(size: .bits256).bytes })
                }
                KindsCommand.report(changes, json: json)
                if !dryRun { try await KeptEvents.tell(of: apps.map(\.name), in: store) }
            }
        }
    }

    struct Diff: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Tells how a manifest differs from what is registered.",
            discussion: """
                Exit status 0 also when there are differences. Signing secrets are not looked at.

                Example:
                  freshet kinds diff bank.yaml
                """)

        @Argument(help: "The manifest, YAML.")
        var file: String

        @Flag(help: "Print JSON.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func run() async throws {
            let manifest = try Manifest.read(path: file, environment: nil)
            try await settings.withStore { store, _ in
                KindsCommand.report(try await store.difference(manifest.apps.map(\.definition)), json: json)
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Lists the registered kinds.")

        @Option(help: "Only kinds of this app.")
        var app: String?

        @Flag(help: "Print JSON.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func run() async throws {
            try await settings.withStore { store, _ in
                let kinds = try await store.pool.query(ListKinds(app: app))
                let moves = try await KindsCommand.moves(in: store)
                if json {
                    Terminal.print(.array(kinds.map { $0.json(move: moves[$0.id]) }))
                    return
                }
                var table = TextTable("APP", "KIND", "STATE", "SHARING", "SPACING", "MAX BATCH", "PROVIDER")
                for kind in kinds {
                    let definition = kind.definition
                    table.add(
                        kind.app, definition.name, kind.state(move: moves[kind.id]), definition.sharing.name,
                        kind.isDeveloperMode
                            ? "none (developer mode)" : DurationText.write(definition.minimumSpacing),
                        "\(definition.maxBatch)", definition.providerURL)
                }
                table.printed()
            }
        }
    }

    struct Show: AsyncParsableCommand {
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

        @Flag(help: "Print JSON; so it does anyway.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func run() async throws {
            try await settings.withStore { store, _ in
                let found = try await KindLookup.kind(kind, of: app, in: store)
                let move = try await KindsCommand.moves(in: store)[found.id]
                let count = CountTimelines(kindID: found.id, limit: WidgetStore.timelineCountLimit)
                let left = found.isRetired ? try await store.pool.query(count).first : nil
                Terminal.print(found.json(move: move, timelinesLeft: left))
            }
        }
    }

    /// The moves under way, by the kind's row id.
    private static func moves(in store: WidgetStore) async throws -> [Int32: KindMove] {
        Dictionary(try await store.pool.query(ListMoves()).map { ($0.kindID, $0) }) { $1 }
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
    /// The signing secrets that it gives, by app.
    fileprivate var secrets: [String: [UInt8]] {
        Dictionary(
            apps.compactMap { app in app.signingSecret.map { (app.definition.name, $0.bytes) } },
            uniquingKeysWith: { $1 })
    }
}

extension SymmetricKey {
    fileprivate var bytes: [UInt8] {
        withUnsafeBytes { Array($0) }
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
