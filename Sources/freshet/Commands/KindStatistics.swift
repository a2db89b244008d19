import ArgumentParser
import FreshetService
import WidgetModel
import WidgetRepresentation
import WidgetStore

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
            guard !rows.isEmpty else { throw try await KindLookup.notFound(nil, of: app, in: store) }
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
        return "\(NumberText.counted(Int(devices.devices), "device")), \(devices.waiting) waiting for a notification, "
            + "\(devices.silent) silent for \(silence) after one"
    }

    private var deliveryTable: TextTable {
        TextTable(
            "KIND", "CHANGES", "FETCHED", "NOT FETCHED", "LATE", "IN TIME", "P50", "P95", "P99", "PUSH P50", "PUSH P99",
            rows: delivery.kinds.map { kind, totals in
                func words(_ latencies: LatencyClasses, _ quantile: Double) -> String {
                    latencies.quantile(quantile)?.words ?? "-"
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
            "\(Figure.bytes(Double(counters.bytesSpared))), \(NumberText.counted(counters.messagesSpared, "message"))"
    }

    private func lints(_ counters: KindCounters) -> String {
        let counts = [
            ("shortGap", counters.shortGaps), ("singleEntryAtEnd", counters.singleEntriesAtEnd),
            ("roundHour", counters.roundHours), ("severalLinks", counters.severalLinks),
        ].filter { $0.1 > 0 }
        return counts.isEmpty ? "-" : counts.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    }
}
