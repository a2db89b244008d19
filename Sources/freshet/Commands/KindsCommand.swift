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
            Apply.self, Diff.self, List.self, Show.self, Intent.self, Stats.self, Delete.self, ImportIntents.self,
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
            let kinds = try await store.query(.listKinds(app: app))
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

    struct Intent: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows the definition of the configuration of a kind's widgets, as JSON.",
            discussion: """
                Example:
                  freshet kinds intent com.example.bank RecentPurchases
                """)

        @Argument(help: "The app's bundle identifier.")
        var app: String

        @Argument(help: "The kind's name.")
        var kind: String

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            guard let intent = try await KindLookup.kind(kind, of: app, in: store).definition.intent else {
                throw CommandFailure(.failure, "kind \(Text.quoted(kind)) has no intent")
            }
            Terminal.print(intent.json())
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

    /// The moves under way, by the kind's row id.
    private static func moves(in store: WidgetStore) async throws -> [Int32: KindMove] {
        Dictionary(try await store.query(.listMoves()).map { ($0.kindID, $0) }) { $1 }
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
    /// Column of `diff`.
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

enum KeptEvents {
    private static let countLimit = 100_000

    /// Prints the hints on standard error, with the command that replays the events.
    static func tell(of apps: [String], in store: WidgetStore) async throws {
        for app in apps {
            for cause in [DeadLetterCause.unknownApp, .unknownKind] {
                let filter = DeadLetterFilter(owner: .app(app), causes: [cause])
                let count = try await store.query(Statements.countDeadLetters(filter, limit: countLimit)).first ?? 0
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

        @OptionGroup var confirmation: Confirmation

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            try await confirmation.ask(
                "removing a kind's widgets",
                question: "Remove the kind \(Text.quoted(kind)) of \(Text.quoted(app)) with all its widgets?",
                refusal: "nothing was removed")
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

extension KindsCommand {
    struct Stats: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows statistics of the reloads of an app's kinds: decisions, savings, lints.",
            discussion: """
                Sums over all processes, by day (UTC). Approximate: each worker adds its counts every ten seconds, and \
                loses the rest if it is killed.

                REQUESTS are requests to the provider, ASKED the timelines in them. SPARED is content that was not \
                stored and published because nothing visible had changed. LINTS are gaps under 5 min between entries, a \
                single entry with atEnd, and reloads after a full hour.

                Where devices are registered, a second table tells of their changes: how many were fetched, how many of these \
                later than delivery.objective, and the time from change to fetch.

                Examples:
                  freshet kinds stats --app com.example.bank
                  freshet kinds stats --app com.example.bank --days 7 --json
                """)

        @Option(help: "The app's bundle identifier.")
        var app: String

        @Option(help: "Days to sum up, today included.", transform: OptionText.number(1...400))
        var days = 1

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let rows = try await store.query(.readKindStatistics(app: app, days: days))
            guard !rows.isEmpty else { throw try await KindLookup.notFound(nil, of: app, in: store) }
            let kinds = try await store.query(.listKinds(app: app))
            let delivery = try await store.query(.deliveryTotals(hours: 24 * days)).compactMap { totals in
                kinds.first { $0.id == totals.kindID }.map { ($0.definition.name, totals) }
            }
            let report = KindReport(rows, delivery: delivery)
            output.print(report.json(app: app, days: days), or: report.text)
        }
    }
}

struct KindReport {
    private struct Kind {
        let name: String
        let isRetired: Bool
        var total = KindCounters()
        var days: [(day: String, counters: KindCounters)] = []
    }

    private var kinds: [Kind] = []
    private let delivery: [(kind: String, totals: DeliveryTotals)]

    init(_ rows: [KindStatistics], delivery: [(kind: String, totals: DeliveryTotals)] = []) {
        self.delivery = delivery
        for row in rows {
            if kinds.last.map({ !Text.equal($0.name, row.kind) }) ?? true {
                kinds.append(Kind(name: row.kind, isRetired: row.isRetired))
            }
            let last = kinds.count - 1
            kinds[last].total = kinds[last].total + row.counters
            if let day = row.day { kinds[last].days.append((day, row.counters)) }
        }
    }

    /// The reloads, and below them the delivery to devices, if there is any.
    var text: String {
        let tables = delivery.isEmpty ? [table] : [table, deliveryTable]
        return tables.map { $0.lines.joined(separator: "\n") }.joined(separator: "\n\n")
    }

    private var deliveryTable: TextTable {
        var table = TextTable("KIND", "CHANGES", "FETCHED", "NOT FETCHED", "LATE", "P50", "P99")
        for (kind, totals) in delivery {
            func words(_ quantile: Double) -> String { totals.latency(quantile).map(\.words) ?? "-" }
            table.add(
                kind, "\(totals.changes)", "\(totals.fetched)", "\(totals.notFetched)", "\(totals.late)", words(0.5),
                words(0.99))
        }
        return table
    }

    private var deliveryJSON: JSONValue {
        .array(
            delivery.map { kind, totals in
                func milliseconds(_ quantile: Double) -> JSONValue {
                    totals.latency(quantile).map { .count($0.wholeMilliseconds) } ?? .null
                }
                return [
                    "kind": .string(kind), "changes": .count(totals.changes), "fetched": .count(totals.fetched),
                    "late": .count(totals.late), "p50Milliseconds": milliseconds(0.5),
                    "p99Milliseconds": milliseconds(0.99),
                ]
            })
    }

    var table: TextTable {
        var table = TextTable(
            "KIND", "REQUESTS", "ASKED", "RELOADED", "UNCHANGED", "FAILED", "DEFERRED", "SLEPT", "SPARED", "LINTS")
        for kind in kinds {
            let counters = kind.total
            table.add(
                kind.isRetired ? "\(kind.name) (retired)" : kind.name, "\(counters.requests)", "\(counters.asked)",
                "\(counters.reloaded)", "\(counters.unchanged)", "\(counters.failed)", "\(counters.deferred)",
                "\(counters.slept)", spared(counters), lints(counters))
        }
        return table
    }

    private func spared(_ counters: KindCounters) -> String {
        guard counters.bytesSpared + counters.messagesSpared > 0 else { return "-" }
        return
            "\(Figure.bytes(Double(counters.bytesSpared))), \(NumberText.counted(counters.messagesSpared, "message"))"
    }

    private func lints(_ counters: KindCounters) -> String {
        let counts = [
            ("shortGap", counters.shortGaps), ("singleEntryAtEnd", counters.singleEntriesAtEnd),
            ("roundHour", counters.roundHours), ("severalLinks", counters.severalLinks),
        ].filter { $0.1 > 0 }
        return counts.isEmpty ? "-" : counts.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    }

    func json(app: String, days: Int) -> JSONValue {
        [
            "app": .string(app), "days": .count(days), "delivery": deliveryJSON,
            "kinds": .array(
                kinds.map { kind in
                    [
                        "kind": .string(kind.name), "retired": .bool(kind.isRetired), "total": kind.total.json,
                        "byDay": .array(kind.days.map { ["day": .string($0.day), "counts": $0.counters.json] }),
                    ]
                }),
        ]
    }
}

extension KindCounters {
    fileprivate var json: JSONValue {
        var object = JSONObject()
        for (name, path) in Self.fields { object[name] = .number(JSONNumber(self[keyPath: path])) }
        return .object(object)
    }
}
