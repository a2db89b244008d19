import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetStore

struct WorkCommand: StoreCommand {
    static let configuration = CommandConfiguration(
        commandName: "work",
        abstract: "Shows pending work: work lists and timelines by lane, kind and age.",
        discussion: """
            Ready lists wait for a worker, leased ones are being worked on, resting ones wait for a provider or Kafka, and \
            later ones are not due yet. Superseded lists count until a worker has seen them. With --wait the command \
            returns when no list is ready, leased or resting, and no sweep is pending. Paused kinds are ignored.

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
        if let app, try await store.query(.listKinds(app: app)).isEmpty {
            throw try await KindLookup.notFound(nil, of: app, in: store)
        }
        let deadline = timeout.map { ContinuousClock.now + $0 }
        var report = try await read(store)
        while wait, report.isDue, deadline.map({ $0 > .now }) ?? true {
            try await Task.sleep(for: .milliseconds(500))
            report = try await read(store)
        }
        output.print(report.json, or: report.lines.joined(separator: "\n"))
        if wait, report.isDue { throw CommandFailure(.failure, "something was due until the timeout") }
    }

    private func read(_ store: WidgetStore) async throws -> WorkReport {
        WorkReport(
            rows: try await store.query(.readWorkLists(app: app)),
            sweeps: try await store.query(Statements.countSweeps(app: app)).first ?? 0)
    }
}

struct WorkReport: Sendable {
    var rows: [WorkLists]
    var sweeps: Int

    var isDue: Bool { sweeps > 0 || rows.contains { $0.isDue && !$0.isPaused } }

    var lines: [String] {
        let table = TextTable(
            "APP", "KIND", "LANE", "READY", "LEASED", "RESTING", "LATER", "OLDEST", "NEXT",
            rows: rows.map { row in
                [
                    row.app, row.kind + (row.isPaused ? " (paused)" : ""), row.lane.name, row.ready.text,
                    row.leased.text, row.resting.text, row.later.text, row.oldest?.words ?? "-",
                    row.next?.rfc3339 ?? "-",
                ]
            })
        var lines = table.lines
        if sweeps > 0 { lines.append("\(sweeps) sweeps are not done") }
        lines.append(isDue ? "timelines in lists, and the lists in parentheses" : "nothing is due")
        return lines
    }

    var json: JSONValue {
        [
            "due": .bool(isDue), "sweeps": .count(sweeps),
            "lists": .array(
                rows.map { row in
                    [
                        "app": .string(row.app), "kind": .string(row.kind), "lane": .string(row.lane.name),
                        "paused": .bool(row.isPaused), "ready": row.ready.json, "leased": row.leased.json,
                        "resting": row.resting.json, "later": row.later.json,
                        "oldestSeconds": .rounded(row.oldest.map { $0 / .seconds(1) }),
                        "nextAt": .time(row.next),
                    ]
                }),
        ]
    }
}

extension WorkCount {
    fileprivate var text: String { lists == 0 ? "-" : "\(timelines) (\(lists))" }

    fileprivate var json: JSONValue {
        ["lists": .count(lists), "timelines": .count(timelines)]
    }
}
