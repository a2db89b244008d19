// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Charts
import FreshetService
import JSON
import PostgresClient
import WidgetAPI
import WidgetModel
import WidgetStore

struct WorkCommand: StoreCommand {
    static let configuration = CommandConfiguration(
        commandName: "work",
        abstract: "Shows pending work: work lists and timelines by lane, kind and age.",
        discussion: """
            Ready lists wait for a worker, leased ones are being worked on, resting ones wait for a provider or \
            Kafka, and later ones are not due yet. A timeline counts once, in the list that is taken first; a \
            superseded list counts as a list until a worker has seen it. With --wait the command returns when no \
            list is ready, leased or resting, and no sweep is pending. Paused kinds are ignored.

            Examples:
              freshet work
              freshet work --app com.example.bank --wait --timeout 10m

            Exit status: 0 done; 1 something was due until the timeout.
            """)

    @Option(help: "Only this app's.")
    var app: String?

    @Flag(help: "Wait until nothing is due.")
    var wait = false

    @Option(
        help: "Longest wait, such as 30s or 10m; no limit by default.",
        transform: OptionText.duration)
    var timeout: Duration?

    @OptionGroup var output: OutputOptions

    func validate() throws {
        if timeout != nil, !wait { throw ValidationError("--timeout: expected with --wait") }
    }

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        if let app { try await store.requireApp(app) }
        let deadline = timeout.map { ContinuousClock.now + $0 }
        while wait, try await isDue(store), deadline.map({ $0 > .now }) ?? true {
            try await Task.sleep(for: .milliseconds(500))
        }
        let (rows, sweeps, isDue) = try await read(store)
        output.print(
            json(rows, sweeps: sweeps, isDue: isDue),
            or: lines(rows, sweeps: sweeps, isDue: isDue).joined(separator: "\n"))
        if wait, isDue { throw CommandFailure(.failure, "something was due until the timeout") }
    }

    private func isDue(_ store: WidgetStore) async throws -> Bool {
        if try await store.query(Statements.countSweeps(app: app)).first ?? 0 > 0 { return true }
        return try await store.query(.workIsDue(app: app)) == [true]
    }

    private func read(_ store: WidgetStore) async throws -> (rows: [WorkLists], sweeps: Int, isDue: Bool) {
        let rows = try await store.query(.readWorkLists(app: app))
        let sweeps = try await store.query(Statements.countSweeps(app: app)).first ?? 0
        return (rows, sweeps, sweeps > 0 || rows.contains { $0.isDue && !$0.isPaused })
    }

    private func lines(_ rows: [WorkLists], sweeps: Int, isDue: Bool) -> [String] {
        let table = TextTable(
            "APP", "KIND", "LANE", "READY", "LEASED", "RESTING", "LATER", "OLDEST", "NEXT",
            rows: rows.map { row in
                [
                    row.app, row.kind + (row.isPaused ? " (paused)" : ""), row.lane.name, Self.text(row.ready),
                    Self.text(row.leased), Self.text(row.resting), Self.text(row.later), row.oldest?.words ?? "-",
                    row.next?.rfc3339 ?? "-",
                ]
            })
        var lines = table.lines
        if sweeps > 0 { lines.append("\(sweeps) sweeps are not done") }
        lines.append(isDue ? "timelines in lists, and the lists in parentheses" : "nothing is due")
        return lines
    }

    private func json(_ rows: [WorkLists], sweeps: Int, isDue: Bool) -> JSONValue {
        [
            "due": .bool(isDue), "sweeps": .count(sweeps),
            "lists": .array(
                rows.map { row in
                    [
                        "app": .string(row.app), "kind": .string(row.kind), "lane": .string(row.lane.name),
                        "paused": .bool(row.isPaused), "ready": Self.json(row.ready), "leased": Self.json(row.leased),
                        "resting": Self.json(row.resting), "later": Self.json(row.later),
                        "oldestSeconds": .rounded(row.oldest.map { $0 / .seconds(1) }),
                        "nextAt": .time(row.next),
                    ]
                }),
        ]
    }

    private static func text(_ count: WorkCount) -> String {
        count.lists == 0 ? "-" : "\(count.timelines) (\(count.lists))"
    }

    private static func json(_ count: WorkCount) -> JSONValue {
        ["lists": .count(count.lists), "timelines": .count(count.timelines)]
    }
}

struct ForecastCommand: StoreCommand {
    static let configuration = CommandConfiguration(
        commandName: "forecast",
        abstract: "Shows scheduled reloads by provider and hour.",
        discussion: """
            Counts timelines by their next due time; overdue ones count as due now. Future events are not included. \
            Timelines of paused and retired kinds, and those being fetched, are counted separately. Hours are UTC; the \
            first one is the rest of the current hour.

            Examples:
              freshet forecast
              freshet forecast --hours 6 --app com.example.bank
              freshet forecast --json
            """)

    @Option(help: "Hours to look ahead, the current one included.", transform: OptionText.number(1...168))
    var hours = 24

    @Option(help: "Only kinds of this app.")
    var app: String?

    @OptionGroup var output: OutputOptions

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        let rows = try await store.query(.forecastDue(app: app, hours: hours))
        if rows.isEmpty, let app {
            throw try await store.notFound(nil, of: app)
        }
        let forecast = Forecast(rows, hours: hours)
        output.print(forecast.json, or: forecast.lines.joined(separator: "\n"))
    }
}

extension Forecast {
    /// Width of the chart in columns.
    static let width = 80

    var lines: [String] {
        guard !providers.isEmpty else { return ["no kinds are registered"] }
        // All providers have the same scale.
        let most = providers.flatMap { [$0.now] + $0.hours }.max() ?? 0
        let digits = Figure.grouped(most).count
        var lines: [String] = []
        for provider in providers {
            lines.append("\(provider.app) · \(provider.url) · \(provider.kinds.joined(separator: ", "))")
            lines += chart(of: provider, most: most, digits: digits)
            lines.append("  \(summary(of: provider))")
            lines.append("")
        }
        lines.append("\(Figure.counted(total, "reload")) scheduled in \(hours) h")
        return lines
    }

    private func chart(of provider: Provider, most: Int, digits: Int) -> [String] {
        guard provider.total > 0 else { return [] }
        let last = provider.hours.lastIndex { $0 > 0 } ?? -1
        let rows =
            [("now", provider.now)]
            + provider.hours.indices.prefix(last + 1).map { (label(of: $0), provider.hours[$0]) }
        return rows.map { label, reloads in
            let number = Figure.grouped(reloads)
            let head =
                "  " + label + String(repeating: " ", count: 11 - label.count + 2 + digits - number.count) + number
            let bar = Chart.bar(reloads, of: most, columns: Self.width - 2 - 11 - 2 - digits - 2)
            return bar.isEmpty ? head : "\(head)  \(bar)"
        }
    }

    /// `06-22 10:00`.
    private func label(of hour: Int) -> String {
        String(begin(of: hour).rfc3339.dropFirst(5).prefix(11)).replacing("T", with: " ")
    }

    private func summary(of provider: Provider) -> String {
        var parts = ["\(Figure.grouped(provider.total)) scheduled"]
        for (count, what) in [
            (provider.leased, "being fetched"), (provider.paused, "paused"), (provider.retired, "of retired kinds"),
        ] where count > 0 {
            parts.append("\(Figure.grouped(count)) \(what)")
        }
        return parts.joined(separator: ", ")
    }
}
