// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import PostgresClient
import WidgetAPI
import WidgetModel
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

                A new app without a signing secret gets a random one. A changed secret is asked about (--yes answers), and \
                leaves the old one valid for 24 hours; `freshet apps rotate-secret` has other times.

                If sharing, variesBy or the parameters of the intent change, the kind's widgets are then moved to new \
                timelines at the pace of a reload of everyone; `freshet kinds show` shows the progress.

                Examples:
                  freshet kinds apply bank.yaml
                  freshet kinds apply bank.yaml --dry-run --json
                """)

        @Argument(help: "The manifest, YAML.")
        var file: String

        @Flag(help: "Check the manifest and show how it differs from the registered kinds, without changes.")
        var dryRun = false

        @OptionGroup var confirmation: Confirmation
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let manifest = try Manifest.read(path: file, environment: ProcessInfo.processInfo.environment)
            try await output.settings.withStore { store, settings in
                let apps = manifest.map(\.definition)
                try await settings.providers.check(apps, file: file)
                for notice in apps.flatMap(\.kinds).flatMap(\.notices) { Terminal.complain("\(file): \(notice)") }
                let rotated = try await confirmRotations(manifest.secrets, in: store)
                let changes: [KindChange]
                if dryRun {
                    changes = try await store.difference(apps)
                } else {
                    changes = try await store.apply(
                        apps, secrets: manifest.secrets, freshSecret: { SigningSecret.random().bytes })
                }
                if !dryRun, !rotated.isEmpty { Terminal.complain("replaced the signing secret of \(rotated)") }
                let lines = changes.map { change in
                    let fields = change.fields.isEmpty ? "" : ": " + change.fields.joined(separator: ", ")
                    let moving = change.moving.map { count in
                        let number = Figure.count(count, limit: WidgetStore.timelineCountLimit)
                        guard change.movingIsMinimum else { return "; \(number) timelines will move" }
                        guard count > 0 else { return "; it is not known how many timelines will move" }
                        return "; at least \(number) timelines will move"
                    }
                    return "\(change.action.symbol) \(change.app) \(change.kind)\(fields)\(moving ?? "")"
                }
                let json = changes.map { change in
                    let kinds = apps.first { Text.equal($0.name, change.app) }?.kinds ?? []
                    return change.json(kinds.first { Text.equal($0.name, change.kind) }?.notices ?? [])
                }
                output.print(.array(json), or: lines.joined(separator: "\n"))
                if !dryRun { for app in apps { try await reportKeptEvents(of: app.name, in: store) } }
            }
        }

        /// Names the apps whose signing secrets the manifest replaces, and asks unless it is a dry run.
        ///
        /// - Returns: their names; empty without any.
        private func confirmRotations(_ secrets: [String: [UInt8]], in store: WidgetStore) async throws -> String {
            let names = try await store.replacedSecrets(secrets).joined(separator: ", ")
            guard !names.isEmpty else { return names }
            guard !dryRun else {
                Terminal.complain("would replace the signing secret of \(names)")
                return names
            }
            try confirmation.ask(
                "Replace the signing secret of \(names)?",
                consequence: "The present one stays valid for \(WidgetStore.secretOverlap.text).",
                refusal: "nothing was applied")
            return names
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
                    "\(Figure.count(count, limit: 100_000)) events of \(app) were kept \(why): "
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
            if let app { try await store.requireApp(app) }
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
                        kind.isDeveloperMode ? "lifted (developer mode)" : definition.minimumSpacing.text,
                        "\(definition.maxBatch)", definition.providerURL,
                    ]
                }
            ).printed()
        }
    }

    struct Show: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows one kind as it is registered, as JSON.",
            discussion: """
                widgetsWithMisfits is the number of widgets with values that a changed intent does not allow any more: \
                defaults take their place. `freshet widgets show` names them. budgetLeft is the rest of the daily \
                budget of a timeline now and when tomorrow (UTC) begins, the mean of the kind's oldest 1,000, and the \
                time of the next token of those without one.

                Example:
                  freshet kinds show --app com.example.bank RecentPurchases
                """)

        @Argument(help: "The kind's name.")
        var kind: String

        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let found = try await store.kind(kind, of: app)
            let move = try await KindsCommand.moves(in: store)[found.id]
            let count = Statements.countTimelines(kindID: found.id, limit: WidgetStore.timelineCountLimit)
            let left = found.isRetired ? try await store.query(count).first : nil
            let misfits = try await store.query(.countMisfits(kindID: found.id)).first
            let budget: JSONValue =
                found.isDeveloperMode ? ["lifted": true] : try await store.budget(of: found)?.json ?? .null
            Terminal.print(
                found.json(move: move, timelinesLeft: left, widgetsWithMisfits: misfits).adding("budgetLeft", budget))
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
                throw try await store.notFound(kind, of: app)
            }
            let left = Figure.count(retirement.timelines, limit: WidgetStore.timelineCountLimit)
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
    fileprivate var symbol: String {
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
        if pause != nil { words.append("paused") }
        if appPause != nil { words.append("app paused") }
        if move != nil { words.append("moving") }
        return words.isEmpty ? "live" : words.joined(separator: ", ")
    }
}

extension KindsCommand {
    struct Stats: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows statistics of the reloads of an app's kinds: decisions, savings, lints.",
            discussion: """
                Sums over all processes, by day (UTC). Approximate: each worker adds its counts every ten seconds, and \
                loses the rest if it is killed.

                REQUESTS are requests to the provider, ASKED the timelines in them. SPARED is content that was not \
                stored and published because nothing visible had changed. LINTS are gaps under 5 min between entries, a \
                single entry with atEnd, and reloads after a full hour.

                Where devices are registered, a second table shows the changes of what they display (further changes before \
                the fetch count as one), how many of them were fetched, the share that was not, how many were fetched later than the \
                objective, and the share that was fetched in time of those that are older than the objective: the kind's freshnessObjective or \
                delivery.objective. P50, P95 and P99 are times from the change to the fetch, and the last two columns those from \
                the push to the fetch. These are kept for 31 days: with more, the table is of the last 31. Below it is the number of \
                devices, an estimate where there are more than 50,000.

                Examples:
                  freshet kinds stats --app com.example.bank
                  freshet kinds stats --app com.example.bank --days 7 --json
                """)

        @Option(help: "Days to sum up, today included.", transform: OptionText.number(1...400))
        var days = 1

        @OptionGroup var options: AppOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let rows = try await store.query(.readKindStatistics(app: app, days: days))
            guard !rows.isEmpty else { throw try await store.notFound(nil, of: app) }
            let kinds = try await store.query(.listKinds(app: app)).readable
            let delivery = try await DeliveryReport(
                of: app, kinds: kinds, days: days, objective: settings.delivery.objective, from: store)
            let report = KindReport(rows, delivery: delivery)
            output.print(report.json(app: app, days: days), or: report.text)
        }
    }
}

extension KindReport {
    /// The reloads, and below them the delivery to devices, if there is any.
    var text: String {
        var parts = [table.lines.joined(separator: "\n")]
        if !delivery.kinds.isEmpty { parts.append(deliveryTable.lines.joined(separator: "\n")) }
        if delivery.devices.devices > 0 { parts.append(devices) }
        return parts.joined(separator: "\n\n")
    }

    private var devices: String {
        let (devices, silence) = (delivery.devices, DeliveryReport.silence.words)
        return "\(Figure.counted(Int(devices.devices), "device")), \(devices.waiting) waiting for a notification, "
            + "\(devices.silent) silent for \(silence) after one"
    }

    private var deliveryTable: TextTable {
        TextTable(
            "KIND", "CHANGES", "FETCHED", "NOT FETCHED", "LATE", "IN TIME", "P50", "P95", "P99", "PUSH P50", "PUSH P99",
            rows: delivery.kinds.map { kind, totals in
                func words(_ latencies: [Int64], _ quantile: Double) -> String {
                    DeliveryTotals.quantile(quantile, of: latencies)?.words ?? "-"
                }
                func percent(_ share: Double?) -> String { share.map { "\(Figure.digits(100 * $0)) %" } ?? "-" }
                return [
                    kind, "\(totals.changes)", "\(totals.fetched)", percent(totals.notFetchedShare), "\(totals.late)",
                    percent(totals.attained), words(totals.latencies, 0.5),
                    words(totals.latencies, 0.95), words(totals.latencies, 0.99), words(totals.pushLatencies, 0.5),
                    words(totals.pushLatencies, 0.99),
                ]
            })
    }

    var table: TextTable {
        TextTable(
            "KIND", "REQUESTS", "ASKED", "RELOADED", "UNCHANGED", "FAILED", "DEFERRED", "SLEPT", "SPARED", "LINTS",
            rows: kinds.map { kind in
                let counters = kind.total
                let counts = [
                    counters.requests, counters.asked, counters.reloaded, counters.unchanged, counters.failed,
                    counters.deferred, counters.slept,
                ]
                return [kind.isRetired ? "\(kind.name) (retired)" : kind.name] + counts.map { "\($0)" }
                    + [spared(counters), lints(counters)]
            })
    }

    private func spared(_ counters: KindCounters) -> String {
        guard counters.bytesSpared + counters.messagesSpared > 0 else { return "-" }
        return
            "\(Figure.bytes(Double(counters.bytesSpared))), \(Figure.counted(counters.messagesSpared, "message"))"
    }

    private func lints(_ counters: KindCounters) -> String {
        let counts = [
            ("shortGap", counters.shortGaps), ("singleEntryAtEnd", counters.singleEntriesAtEnd),
            ("roundHour", counters.roundHours), ("severalLinks", counters.severalLinks),
        ].filter { $0.1 > 0 }
        return counts.isEmpty ? "-" : counts.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    }
}

extension KindsCommand {
    struct ImportIntents: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "import-intents",
            abstract:
                "Turns an intent definition file of Xcode into the part of a manifest that defines configurations.",
            discussion: """
                Prints a kind for each custom intent, with its name and its intent, as YAML. Move each intent to the \
                kind that it configures. Parts without an equivalent are reported on standard error. With --app, \
                --provider and --placeholder, the output is a manifest that `freshet kinds apply` accepts.

                A parameter with dynamic options and without a default gets dynamicDefault; remove it if the app's \
                extension provides no default.

                Strings files are named by the locale of their folder, such as de.lproj/Intents.strings.

                Examples:
                  freshet kinds import-intents Base.lproj/Intents.intentdefinition
                  freshet kinds import-intents Intents.intentdefinition --strings de.lproj/Intents.strings --json
                  freshet kinds import-intents Intents.intentdefinition --app com.example.bank \\
                    --provider https://bank.example.com/widgets --placeholder '{"title": "Purchases"}' > kinds.yaml
                """)

        /// Larger than any file that Xcode writes.
        private static let maximumBytes = 16_777_216

        @Argument(help: "The intent definition file.")
        var file: String

        @Option(parsing: .upToNextOption, help: "Translations: a file of a locale, such as de.lproj/Intents.strings.")
        var strings: [String] = []

        @Option(help: "The app of the manifest.")
        var app: String?

        @Option(help: "URL of the app's timeline provider.")
        var provider: String?

        @Option(
            help: "Content of each kind before there is a timeline, as JSON.",
            transform: { text in
                do throws(JSONError) {
                    return try JSONValue.parse(text)
                } catch {
                    throw ValidationError("--placeholder: \(error.message)")
                }
            })
        var placeholder: JSONValue?

        @Flag(help: "Print JSON.")
        var json = false

        func run() async throws {
            var tables: [String: [UInt8]] = [:]
            for path in strings {
                let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
                guard folder.pathExtension == "lproj" else {
                    throw CommandFailure(.failure, "\(path): expected a folder such as de.lproj")
                }
                let locale = folder.deletingPathExtension().lastPathComponent
                guard tables[locale] == nil else {
                    throw CommandFailure(.failure, "\(path): a second file of the locale \(locale)")
                }
                tables[locale] = try [UInt8](file: path, maximumBytes: Self.maximumBytes)
            }
            let intents = try XcodeIntents(
                try [UInt8](file: file, maximumBytes: Self.maximumBytes), strings: tables)
            for notice in intents.notices { Terminal.complain("\(file): \(notice)") }
            let manifest = try intents.manifest(app: app, provider: provider, placeholder: placeholder)
            if json { Terminal.print(manifest) } else { Terminal.print(try manifest.yaml()) }
        }
    }
}
