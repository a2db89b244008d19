// SPDX-License-Identifier: Apache-2.0

import CLibpq
import Foundation
import WidgetModel

@testable import PostgresClient
@testable import WidgetStore

/// Reading and binding of statements, without a server.
struct StoreCases {
    private static let count = 100

    private let claimed = ClaimedRows(count: count)

    /// The rows of a claim to the claim.
    var claim: MeasuredCase {
        let pipelineItem = PostgresPipeline.Item(.claimLists([], lease: .seconds(30)), decodes: true)
        return MeasuredCase(name: "claim rows", items: Self.count, expected: Self.count) { [claimed] in
            Self.claim(of: claimed, pipelineItem)?.count ?? 0
        }
    }

    private static func claim(of rows: ClaimedRows, _ item: PostgresPipeline.Item) -> Claim? {
        guard let decoded = try? item.decode?(rows.result) as? [ClaimRow] else { return nil }
        return Claim(decoded)
    }

    /// Timelines with new content to the parameters of the statement that stores.
    var store: MeasuredCase {
        let jobs = self.jobs
        return MeasuredCase(name: "store parameters", items: jobs.count, expected: Self.count) {
            let parameters = Statements.replaceContent(jobs).parameters
            return parameters.bytes.count > 650 * jobs.count ? jobs.count : 0
        }
    }

    private var jobs: [TimelineJob] {
        let item = PostgresPipeline.Item(.claimLists([], lease: .seconds(30)), decodes: true)
        guard let claim = Self.claim(of: claimed, item) else { return [] }
        let app = RegisteredApp(id: 1, name: "com.example.bank", isDeveloperMode: false, signingSecret: [])
        let kind = WorkerCases.kind("RecentPurchases", id: 1, app: app.name)
        let now = Timestamp(microseconds: 1_760_000_000_000_000)
        return claim.lists.flatMap { list in
            let listClaim = ListClaim(
                list, app: app, kind: kind, token: claim.token, startedAt: .zero, leaseEnds: .seconds(30))
            return list.timelines.map { timeline in
                var job = TimelineJob(timeline, of: listClaim)
                job.content = Array(repeating: UInt8(ascii: "x"), count: 650)
                job.hash = ContentHash(high: 1, low: UInt64(timeline.row))
                job.next = ReloadRules.Next(eligibleAt: now, freeAt: now, policyAt: now)
                job.rule = .gate
                job.ledger = timeline.ledger
                job.fetchTime = .milliseconds(20)
                return job
            }
        }
    }

    /// Requests of users to the parameters of the statement that marks.
    var mark: MeasuredCase {
        let marks = (0..<Self.count).map { index in
            TimelineMark(
                audience: .user, appID: 1, audienceID: "a-user-of-the-bank-\(index)", kindID: 1, matching: nil,
                events: 1, urgency: .budgeted, lane: .push,
                cause: EventPosition(topic: 1, partition: Int32(index % 6), offset: Int64(index)), reason: .push)
        }
        return MeasuredCase(name: "mark parameters", items: marks.count, expected: Self.count) {
            let parameters = Statements.markUsers(marks, limit: 10_000).parameters
            return parameters.bytes.count > 20 * marks.count ? marks.count : 0
        }
    }
}

/// A result of the statement that claims: ten lists of kept timelines, in the columns and types that PostgreSQL gives.
///
/// `@unchecked Sendable`: it is not changed after it was made.
private final class ClaimedRows: @unchecked Sendable {
    let result: LibpqResult

    init(count: Int) {
        guard let made = unsafe PQmakeEmptyPGresult(nil, PGRES_TUPLES_OK) else { fatalError("out of memory") }
        unsafe result = LibpqResult(owning: made)
        for index in 0..<count {
            let row = Self.row(index)
            if index == 0 { unsafe Self.declare(row, in: made) }
            for (column, cell) in row.enumerated() {
                let bytes = cell.bytes.map { $0.map { CChar(bitPattern: $0) } }
                var value = bytes ?? [0]
                guard unsafe PQsetvalue(made, Int32(index), Int32(column), &value, Int32(bytes?.count ?? -1)) == 1
                else { fatalError("out of memory") }
            }
        }
    }

    /// Names, types and the binary format of the columns.
    private static func declare(_ row: [Cell], in result: OpaquePointer) {
        let names = unsafe row.map { unsafe strdup($0.name) }
        defer { for name in unsafe names { unsafe free(name) } }
        var columns = unsafe zip(row, names).map { cell, name in
            unsafe PGresAttDesc(
                name: name, tableid: 0, columnid: 0, format: 1, typid: cell.oid, typlen: -1, atttypmod: -1)
        }
        guard unsafe PQsetResultAttrs(result, Int32(columns.count), &columns) == 1 else { fatalError("out of memory") }
    }

    private struct Cell {
        let name: String
        let oid: UInt32
        /// nil: NULL.
        let bytes: [UInt8]?

        init<Value: PostgresValue>(_ name: String, _ value: Value?) {
            let parameters = PostgresParameters(value)
            self.name = name
            oid = parameters.fields[0].oid
            bytes = value.map { _ in Array(parameters.bytes.dropFirst()) }
        }

        /// `real`, which is only read.
        init(real name: String, _ value: Float) {
            (self.name, oid) = (name, PostgresType.float4.oid)
            bytes = (0..<4).map { UInt8(truncatingIfNeeded: value.bitPattern >> (24 - 8 * $0)) }
        }
    }

    private static func row(_ index: Int) -> [Cell] {
        let (list, row) = (Int64(index / 10 + 1), Int64(index + 1_000_000))
        let now = Timestamp(microseconds: 1_760_000_000_000_000)
        let yesterday = Timestamp(microseconds: 1_759_913_600_000_000)
        let none: Int64? = nil
        return [
            Cell("list", list), Cell("list_kind", Int32(1)), Cell("lane", ReloadLane.push), Cell("due_at", now),
            Cell("ready_since", now), Cell("list_generation", none), Cell("lease", 7_000 + list),
            Cell("suspects", Optional<PostgresArray<Int64>>.none),
            Cell("row", row), Cell("identity", TimelineID(high: 0x1234_5678, low: UInt64(index))),
            Cell("kind_id", Int32(1)), Cell("requested", Int64(12)), Cell("rendered", Int64(11)),
            Cell("free_requested", Int64(3)), Cell("forced_requested", Int64(0)), Cell("generation", Int64(2)),
            Cell("eligible_at", yesterday), Cell("free_at", yesterday), Cell("retry_at", Timestamp.distantPast),
            Cell("policy_at", now), Cell("asleep", false), Cell("orphaned", false),
            Cell("kind_generation", Int64(2)), Cell("kind_free", Int64(1)), Cell("kind_forced", Int64(0)),
            Cell("kind_cancelled", Int64(0)), Cell("revision", Int64(6_000)), Cell("content_revision", Int64(6_000)),
            Cell("hash", ContentHash(high: 5, low: UInt64(index))), Cell("attempts", Int16(0)),
            Cell("listed_at", now), Cell("rendered_at", yesterday), Cell("requested_at", now),
            Cell("viewed_at", yesterday), Cell("placed_at", yesterday), Cell(real: "view_rate", 0.5),
            Cell("budget", ledger.stored), Cell("family", WidgetFamily.systemSmall),
            Cell("configuration", #"{"card":"card-\#(index)"}"#), Cell("locale", "en-GB"),
            Cell("time_zone", "Europe/London"), Cell("user_id", "user-of-the-bank-\(index)"),
            Cell("cause_topic", Int16(1)), Cell("cause_partition", Int32(index % 6)),
            Cell("cause_offset", Int64(index)), Cell("cause_reason", ReloadReason.push),
            Cell("kind_topic", Optional<Int16>.none), Cell("kind_partition", Optional<Int32>.none),
            Cell("kind_offset", none), Cell("kind_reason", Optional<Int16>.none), Cell("read_at", now),
        ]
    }

    /// A budget with two reloads.
    private static let ledger: BudgetLedger = {
        var ledger = BudgetLedger()
        ledger.spend(of: 40, at: Timestamp(microseconds: 1_759_913_600_000_000))
        ledger.spend(of: 40, at: Timestamp(microseconds: 1_759_913_700_000_000))
        return ledger
    }()
}
