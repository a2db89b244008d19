import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetStore

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
            let rows = try await store.pool.query(.readKindStatistics(app: app, days: days))
            guard !rows.isEmpty else { throw try await KindLookup.notFound(nil, of: app, in: store) }
            let report = KindReport(rows)
            output.print(report.json(app: app, days: days), or: report.table.lines.joined(separator: "\n"))
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

    init(_ rows: [KindStatistics]) {
        for row in rows {
            if kinds.last.map({ !Text.equal($0.name, row.kind) }) ?? true {
                kinds.append(Kind(name: row.kind, isRetired: row.isRetired))
            }
            let last = kinds.count - 1
            kinds[last].total = kinds[last].total + row.counters
            if let day = row.day { kinds[last].days.append((day, row.counters)) }
        }
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
            ("roundHour", counters.roundHours),
        ].filter { $0.1 > 0 }
        return counts.isEmpty ? "-" : counts.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    }

    func json(app: String, days: Int) -> JSONValue {
        [
            "app": .string(app), "days": .count(days),
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
