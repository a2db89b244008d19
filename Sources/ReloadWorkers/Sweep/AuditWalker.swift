// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import Waiting
import WidgetModel
import WidgetStore

/// Walks all timelines slowly and appoints those with work and no list. Only a fault of the protocol leaves such
/// timelines: an alert fires unless the count stays zero.
///
/// One process of the installation walks at a time. A pass reads each timeline once and, if appointments of some are
/// long past, each list once, so that its cost is linear in both.
struct AuditWalker {
    /// Lists of one statement.
    private static let lists = 500

    let context: WorkerContext

    /// Walks until the task is cancelled.
    ///
    /// - Throws: `CancellationError`; an error that is not transient.
    func run() async throws {
        try await context.repeatedly("audit") {
            try await context.clock.sleep(for: context.configuration.auditPollInterval.jittered)
            try await pass()
        }
    }

    /// Audits the timelines of a pass, unless another process does or the pass is later.
    ///
    /// A process that takes over continues where its predecessor stopped. The suspects of the latter are lost, so that
    /// the next pass follows without a pause.
    func pass() async throws {
        let configuration = context.configuration
        let take = Statements.takeAudit(worker: context.worker, lease: configuration.auditLease)
        guard let position = try await context.pool.query(take).first else { return }
        var suspects = AuditSuspects(pass: position.pass)
        var cursor = position.cursor
        var isAtEnd = false
        while !isAtEnd {
            let last = try await readTimelines(after: cursor, &suspects)
            isAtEnd = last == nil
            cursor = last ?? cursor
            guard try await advance(to: cursor) else { return }
        }
        var list: Int64? = suspects.isEmpty ? nil : 0
        while let after = list {
            list = try await readLists(after: after, &suspects)
            guard try await advance(to: cursor) else { return }
        }
        try await appoint(suspects.timelines)
        let end = Statements.endAuditPass(
            worker: context.worker, isWhole: position.cursor == 0, interval: configuration.auditInterval)
        _ = try await context.pool.execute(end)
    }

    /// Reads a page of timelines and returns its last row, nil at the end.
    private func readTimelines(after: Int64, _ suspects: inout AuditSuspects) async throws -> Int64? {
        let configuration = context.configuration
        let rows = try await context.pool.query(
            .auditTimelines(after: after, limit: configuration.auditChunk, slack: configuration.auditSlack))
        let found = rows.compactMap(\.item)
        // Without an appointment there is no list to look for.
        try await appoint(found.filter { $0.listedAt == .distantFuture })
        for timeline in found where timeline.listedAt != .distantFuture { suspects.add(timeline) }
        return rows.first?.last
    }

    /// Reads a page of lists, removes their timelines from the suspects, and returns its last row, nil at the end.
    private func readLists(after: Int64, _ suspects: inout AuditSuspects) async throws -> Int64? {
        let rows = try await context.pool.query(
            .auditLists(after: after, limit: Self.lists, latest: suspects.latest))
        for list in rows.compactMap(\.item) { suspects.remove(list.timelines, listedAt: list.dueAt) }
        return rows.first?.last
    }

    /// Stores the progress and pauses. False if another process has taken the audit.
    private func advance(to cursor: Int64) async throws -> Bool {
        let advance = Statements.advanceAudit(
            worker: context.worker, cursor: cursor, lease: context.configuration.auditLease)
        guard try await context.pool.query(advance).first != nil else { return false }
        try await context.clock.sleep(for: context.configuration.auditSpacing.jittered)
        return true
    }

    /// Appoints timelines without a list, counts and reports them.
    private func appoint(_ lost: [AuditedTimeline]) async throws {
        let size = max(1, context.configuration.auditChunk)
        for start in stride(from: 0, to: lost.count, by: size) {
            let part = Array(lost[start..<min(start + size, lost.count)])
            let appointed = try await context.pool.query(.appointLost(part)).first ?? 0
            guard appointed > 0 else { continue }
            context.metrics.auditAppointed.increment(by: appointed)
            context.logger.critical(
                "timelines had something to do and no appointment", metadata: ["count": "\(appointed)"])
            context.signals.timelines.signal()
        }
    }
}
