// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport

@testable import ReloadWorkers
@testable import WidgetModel
@testable import WidgetStore

/// Values for tests without a database.
enum Sample {
    static let now = Timestamp(microseconds: 1_700_000_000_000_000)
    static let app = RegisteredApp(id: 1, name: "com.example", isDeveloperMode: false, signingSecret: [1])
    static let url = "http://provider/widgets"
    static let provider = ProviderKey(appID: 1, app: app.name, url: url)

    static func kind(
        _ id: Int32 = 11, url: String = Sample.url, maxBatch: Int = 100, timeout: Duration = .seconds(10),
        isRetired: Bool = false, pausedAt: Timestamp? = nil
    ) -> RegisteredKind {
        RegisteredKind(
            id: id, appID: app.id, app: app.name, isDeveloperMode: false,
            definition: KindDefinition(
                name: "K\(id)", providerURL: url, maxBatch: maxBatch, timeout: timeout,
                placeholder: .object(JSONObject())),
            isRetired: isRetired, pause: pausedAt.map { OperatorAction(at: $0, note: nil) })
    }

    static func directory(_ kinds: [RegisteredKind] = [kind()]) -> KindDirectory {
        KindDirectory(apps: [app], kinds: kinds)
    }

    /// Returns a timeline that, by default, was requested once and never rendered.
    static func timeline(
        _ row: Int64, kindID: Int32 = 11, state: TimelineState = TimelineState(requested: 1, freeRequested: 1),
        kind: KindGenerations = KindGenerations(), revision: Int64 = 0, attempts: Int16 = 0,
        listedAt: Timestamp = now, renderedAt: Timestamp? = nil, ledger: BudgetLedger = BudgetLedger(),
        views: ViewStatistics = ViewStatistics()
    ) -> ClaimedTimeline {
        ClaimedTimeline(
            row: row, id: TimelineID(high: 1, low: UInt64(row)), kindID: kindID, state: state, kind: kind,
            revision: revision, contentRevision: revision, hash: nil, attempts: attempts, listedAt: listedAt,
            renderedAt: renderedAt, requestedAt: nil, viewedAt: nil, ledger: ledger, views: views,
            family: .systemSmall, hasUnknownFamily: false, configuration: .empty, locale: "en-GB",
            timeZone: "Europe/London", user: "u\(row)", cause: nil, reason: nil, readAt: now)
    }

    static func list(
        _ id: Int64, rows: [Int64], lane: ReloadLane = .push, lease: Int64 = 1, generation: Int64? = nil,
        suspects: [Int64] = []
    ) -> LeasedList {
        list(id, rows.map { timeline($0) }, lane: lane, lease: lease, generation: generation, suspects: suspects)
    }

    static func list(
        _ id: Int64, _ timelines: [ClaimedTimeline], lane: ReloadLane = .push, lease: Int64 = 1,
        generation: Int64? = nil, suspects: [Int64] = []
    ) -> LeasedList {
        LeasedList(
            id: id, kindID: timelines.first?.kindID ?? 11, lane: lane, dueAt: now, generation: generation, lease: lease,
            suspects: suspects, timelines: timelines)
    }

    static func claim(
        _ list: LeasedList = list(1, rows: []), kind: RegisteredKind = kind(), token: Int64 = 1,
        startedAt: Duration = .zero, leaseEnds: Duration = .seconds(30)
    ) -> ListClaim {
        ListClaim(list, app: app, kind: kind, token: token, startedAt: startedAt, leaseEnds: leaseEnds)
    }

    static func job(
        _ row: Int64, kind: RegisteredKind = kind(), lane: ReloadLane = .push, attempts: Int16 = 0
    ) -> TimelineJob {
        TimelineJob(
            timeline(row, kindID: kind.id, attempts: attempts),
            of: claim(list(row, rows: [], lane: lane), kind: kind))
    }

    /// A provider's answer with one entry.
    static func answer(_ content: String, at date: Timestamp = now) -> ParsedTimeline {
        let bytes = Array(content.utf8)
        return ParsedTimeline(
            policy: .never, firstEntryDate: date, lastEntryDate: date, entryCount: 1, lints: [], content: bytes,
            hash: ContentHash(of: bytes))
    }
}
