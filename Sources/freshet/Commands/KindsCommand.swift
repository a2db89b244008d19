import ArgumentParser
import Crypto
import Foundation
import PostgresClient
import WidgetModel
import WidgetStore

struct KindsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kinds",
        abstract: "Registers apps and their kinds of widgets from a manifest, and shows them.",
        subcommands: [Apply.self, Diff.self, List.self, Show.self, Stats.self])

    struct Apply: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Registers the apps and kinds of a manifest.",
            discussion: """
                The manifest is checked as a whole, and everything that is wrong is told with its line. It is applied \
                in one transaction. Kinds that it does not list are left as they are.

                An app that is given no signing secret gets a random one when it is new, and keeps its own otherwise.

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
                if json {
                    Terminal.print(.array(kinds.map(\.json)))
                    return
                }
                var table = TextTable("APP", "KIND", "SHARING", "SPACING", "MAX BATCH", "PROVIDER")
                for kind in kinds where !kind.isRetired {
                    let definition = kind.definition
                    table.add(
                        kind.app, definition.name, definition.sharing.name,
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
                let kinds = try await store.pool.query(ListKinds(app: app))
                guard let found = kinds.first(where: { $0.definition.name == kind }) else {
                    let known = kinds.map(\.definition.name)
                    let meant = Suggestion.closest(to: kind, among: known).map { "; did you mean \($0)?" } ?? ""
                    throw CommandFailure(
                        .failure,
                        kinds.isEmpty
                            ? "no app \(Text.quoted(app)) with kinds is registered; `freshet kinds list` shows all"
                            : "app \(Text.quoted(app)) has no kind \(Text.quoted(kind))\(meant)")
                }
                Terminal.print(found.json)
            }
        }
    }

    private static func report(_ changes: [KindChange], json: Bool) {
        if json {
            Terminal.print(
                .array(
                    changes.map { change in
                        [
                            "app": .string(change.app), "kind": .string(change.kind),
                            "action": .string(change.action.rawValue),
                            "fields": .array(change.fields.map { .string($0) }),
                        ]
                    }))
            return
        }
        for change in changes {
            let fields = change.fields.isEmpty ? "" : ": " + change.fields.joined(separator: ", ")
            Terminal.print("\(change.action.mark) \(change.app) \(change.kind)\(fields)")
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
    var json: JSONValue {
        var object = JSONObject()
        object["app"] = .string(app)
        object["developerMode"] = .bool(isDeveloperMode)
        object["retired"] = .bool(isRetired)
        object["definition"] = definition.json()
        return .object(object)
    }
}
