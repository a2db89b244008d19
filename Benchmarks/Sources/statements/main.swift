// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Logging
import PostgresClient
import WidgetModel
import WidgetStore

// `statements [TIMELINES [PASSES [REQUESTS]]]`: the statements of a reload, back to back over one connection, without
// Kafka, provider or pipeline. Each pass marks every timeline once, or as many as REQUESTS says, in an order that has
// nothing to do with the ids, claims the lists, stores new content and ends the lists. Prints a line a pass:
// microseconds of wall time and bytes of WAL a timeline, the HOT share of the updates so far, and the sizes of table
// and indexes as multiples of those before the first pass.
//
// Needs an empty database, named by FRESHET_POSTGRES_URL; see Benchmarks/README.md.

let arguments = CommandLine.arguments.dropFirst()
let numbers = arguments.compactMap { Int($0) }.filter { $0 > 0 }
guard let url = ProcessInfo.processInfo.environment["FRESHET_POSTGRES_URL"], numbers.count == arguments.count else {
    let usage = "usage: FRESHET_POSTGRES_URL=… statements [TIMELINES [PASSES [REQUESTS]]]\n"
    FileHandle.standardError.write(Data(usage.utf8))
    exit(64)
}
let measurement = StatementPasses(
    pool: PostgresPool(
        configuration: PostgresConfiguration(connectionString: url), logger: Logger(label: "statements")),
    timelines: numbers.first ?? 200_000, requests: numbers.count > 2 ? numbers[2] : numbers.first ?? 200_000)
try await measurement.fill()
try await measurement.run(passes: numbers.count > 1 ? numbers[1] : 3)

struct StatementPasses {
    private static let app = "com.example.statements"
    private static let kinds = 20
    private static let batch = 1_000
    private static let contentBytes = 650

    let pool: PostgresPool
    let timelines: Int
    /// Timelines that a pass reloads.
    let requests: Int

    /// Registers the kinds, and inserts rendered timelines with a widget each.
    func fill() async throws {
        _ = try await PostgresMigrator(migrations: PostgresMigration.all).apply(on: pool)
        let store = WidgetStore(pool: pool)
        let definition = AppDefinition(
            name: Self.app, developerMode: true,
            kinds: (0..<Self.kinds).map {
                KindDefinition(name: "Kind\($0)", providerURL: "http://127.0.0.1:9", placeholder: [:])
            })
        _ = try await store.apply([definition], secrets: [:]) { Array(repeating: 7, count: 32) }
        let kinds = try await registered()
        let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")
        try await store.fill(timelines) { index in
            let kind = kinds[index % kinds.count]
            let placement = WidgetPlacement(
                app: Self.app, widget: "w\(index)", user: "u\(index)", device: "d\(index)", kind: kind.definition.name,
                family: .systemSmall, configuration: .empty, environment: environment)
            return FilledWidget(
                placement: placement,
                identity: TimelineIdentity(
                    app: Self.app, kind: kind.definition.name, sharing: .perUser, variesBy: .all, family: .systemSmall,
                    configuration: .empty, environment: environment, user: placement.user),
                kind: kind, content: Self.content(index, pass: 0),
                hash: ContentHash(high: UInt64(index), low: 0), nextReload: .seconds(86_400))
        }
        _ = try await pool.execute(.tidyTimelines())
        _ = try await pool.execute(.writeCheckpoint())
    }

    func run(passes: Int) async throws {
        let kinds = try await registered()
        let fresh = try await sizes()
        print("pass  mark  claim  store  end   sum   WAL  HOT      table  indexes")
        for pass in 1...max(1, passes) {
            var spent = Spent()
            let wal = try await walBytes()
            try await pool.withConnection { connection in
                try await mark(pass, kinds, on: connection, &spent)
                try await drain(pass, kinds, on: connection, &spent)
            }
            let bytes = (try await walBytes() - wal) / Int64(requests)
            guard spent.stored == requests else {
                throw Failure("pass \(pass) stored \(spent.stored) timelines, not \(requests)")
            }
            let size = try await sizes()
            let steps = [spent.mark, spent.claim, spent.store, spent.end]
            let each = (steps + [steps.reduce(.zero, +)])
                .map { String(format: "%6.1f", $0 / .microseconds(1) / Double(requests)) }
            print(
                String(format: "%4d", pass), each.joined(), String(format: "%5d", bytes),
                String(format: "%6.2f %%", 100 * size.hot),
                String(format: "%8.2f %8.2f", size.table / fresh.table, size.indexes / fresh.indexes))
        }
    }

    private func registered() async throws -> [RegisteredKind] {
        let directory = try await DirectoryCache(pool: pool).refresh()
        return directory.kinds.values.sorted { $0.id < $1.id }
    }

    private func mark(
        _ pass: Int, _ kinds: [RegisteredKind], on connection: PostgresConnection, _ spent: inout Spent
    ) async throws {
        // A stride that has no divisor in common with the number of timelines visits each once.
        var stride = timelines * 618 / 1_000 | 1
        while Self.commonDivisor(stride, timelines) > 1 { stride += 2 }
        for first in Swift.stride(from: 0, to: requests, by: Self.batch) {
            var marks: [TimelineMark] = []
            for position in first..<min(first + Self.batch, requests) {
                let index = (pass &* requests &+ position) % timelines &* stride % timelines
                let kind = kinds[index % kinds.count]
                marks.append(
                    TimelineMark(
                        audience: .user, appID: kind.appID, audienceID: "u\(index)", kindID: kind.id, matching: nil,
                        events: 1, urgency: .budgeted, lane: .push,
                        cause: EventPosition(topic: 0, partition: 0, offset: Int64(pass * timelines + position)),
                        reason: .push))
            }
            let began = ContinuousClock.now
            _ = try await connection.query(.markUsers(marks, limit: 1_000))
            spent.mark += began.duration(to: .now)
        }
    }

    /// Claims, stores and ends until nothing is ready.
    private func drain(
        _ pass: Int, _ kinds: [RegisteredKind], on connection: PostgresConnection, _ spent: inout Spent
    ) async throws {
        let writer = StoredJobs(directory: try await DirectoryCache(pool: pool).refresh())
        while true {
            // As many lists as hold about the timelines of one store.
            let requests = kinds.map {
                ClaimRequest(KindLane(kindID: $0.id, lane: .push), lists: max(1, Self.batch / 50 / kinds.count))
            }
            var began = ContinuousClock.now
            let rows = try await connection.query(.claimLists(requests, lease: .seconds(60)))
            spent.claim += began.duration(to: .now)
            guard let claim = Claim(rows) else { return }
            let writes = claim.lists.flatMap { list in
                writer.jobs(of: list, pass: pass, token: claim.token)
            }
            for first in Swift.stride(from: 0, to: writes.count, by: Self.batch) {
                began = ContinuousClock.now
                let part = Array(writes[first..<min(first + Self.batch, writes.count)])
                spent.stored += try await connection.query(.replaceContent(part)).count
                spent.store += began.duration(to: .now)
            }
            began = ContinuousClock.now
            let ends = claim.lists.map { (hold: $0.hold, isCompared: true) }
            _ = try await connection.query(.endLists(ends, worker: 1))
            spent.end += began.duration(to: .now)
        }
    }

    /// Canonical content of as many bytes as the load tool's.
    static func content(_ index: Int, pass: Int) -> String {
        let head = #"{"entries":[{"content":{"amount":"\#(index % 10_000).00","note":""#
        let tail = #"","title":"Purchase \#(index) of \#(pass)"},"date":"2026-01-01T00:00:00Z"}],"policy":"never"}"#
        let words = ["coffee ", "train ", "books ", "rent ", "lunch ", "tickets ", "flowers ", "repair "]
        var text = head
        var word = index &+ pass
        while text.utf8.count + tail.utf8.count < contentBytes {
            text += words[word & 7]
            word = word &* 5 &+ 3
        }
        return text + tail
    }

    private static func commonDivisor(_ first: Int, _ second: Int) -> Int {
        second == 0 ? first : commonDivisor(second, first % second)
    }
}

/// Times spent, and timelines stored.
struct Spent {
    var mark: Duration = .zero
    var claim: Duration = .zero
    var store: Duration = .zero
    var end: Duration = .zero
    var stored = 0
}

/// What a worker would store.
struct StoredJobs {
    let directory: KindDirectory

    func jobs(of list: LeasedList, pass: Int, token: Int64) -> [TimelineJob] {
        guard let kind = directory.kinds[list.kindID], let app = directory.apps[kind.app] else { return [] }
        let claim = ListClaim(list, app: app, kind: kind, token: token, startedAt: .zero, leaseEnds: .zero)
        return list.timelines.map { timeline in
            var job = TimelineJob(timeline, of: claim)
            job.content = Array(StatementPasses.content(Int(timeline.row), pass: pass).utf8)
            job.hash = ContentHash(high: UInt64(timeline.row), low: UInt64(pass))
            job.next = ReloadRules.Next(
                eligibleAt: .distantPast, freeAt: .distantPast, policyAt: timeline.readAt + .seconds(86_400))
            (job.rule, job.ledger, job.fetchTime) = (.developerMode, timeline.ledger, .milliseconds(5))
            return job
        }
    }
}

struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// State of the table `timeline`.
struct TableState: Sendable {
    /// Share of its updates that were HOT.
    let hot: Double
    let table: Double
    let indexes: Double
}

extension StatementPasses {
    private func walBytes() async throws -> Int64 {
        try await pool.query(.databaseVitals())[0].walBytes
    }

    private func sizes() async throws -> TableState {
        let query = PostgresQuery(
            """
            SELECT coalesce(n_tup_hot_upd::float8 / nullif(n_tup_upd, 0), 1) AS hot,
                   pg_table_size(relid)::float8 AS table_bytes, pg_indexes_size(relid)::float8 AS index_bytes
            FROM pg_stat_user_tables WHERE relname = 'timeline'
            """
        ) { row in
            TableState(
                hot: try row.value("hot"), table: try row.value("table_bytes"),
                indexes: try row.value("index_bytes"))
        }
        // A server process passes its counts on when it has been idle for a second.
        try await Task.sleep(for: .seconds(1.5))
        return try await pool.query(query)[0]
    }
}
