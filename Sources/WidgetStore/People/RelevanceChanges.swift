// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// Relevance of a timeline to be stored.
package typealias RelevanceWrite = (timeline: Int64, revision: Int64, relevance: RelevanceRecord)

/// Stored relevance of a timeline, with content that it may not know.
package struct StoredRelevance: Sendable {
    package let timeline: Int64
    package let contentRevision: Int64
    package let storedAt: Timestamp?
    /// Whether relevance is stored, so that changes of the content are noted.
    package let isRecorded: Bool
    /// Stored relevance; nil: none that can be read.
    private let record: RelevanceRecord?
    /// Canonical content that the relevance does not know.
    private let content: [UInt8]?

    /// Columns of a statement with the tables `timeline t` and, joined if it has a row, `relevance r`.
    static let columns = """
        t.id AS timeline_id, t.content_revision, t.stored_at, r.history, r.points,
        CASE WHEN t.content_revision > coalesce(r.revision, 0) THEN t.content END AS content
        """

    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        timeline = try row.value("timeline_id")
        contentRevision = try row.value("content_revision")
        storedAt = try row.optional("stored_at")
        content = try row.optional("content", as: PostgresTextBytes.self)?.bytes
        let history = try row.optional("history", as: [UInt8].self)
        isRecorded = history != nil
        // Unreadable relevance counts as none until the timeline's content changes.
        if let history {
            let points: [UInt8] = try row.value("points")
            record = RelevanceHistory(encoded: history).flatMap { history in
                RelevanceCurve(encoded: points).map { RelevanceRecord(curve: $0, history: history) }
            }
        } else {
            record = nil
        }
    }

    /// The relevance with that of the present content; nil for the write if it is stored already.
    ///
    /// - Parameter always: whether a timeline without content has its relevance stored, so that its first content is
    ///   noted.
    func recorded(always: Bool) -> (relevance: RelevanceRecord, write: RelevanceWrite?) {
        var relevance = record ?? RelevanceRecord()
        if let content, let storedAt {
            // Content that was stored is valid.
            relevance.replace(with: (try? RelevanceCurve(timeline: content)) ?? RelevanceCurve([]), at: storedAt)
            return (relevance, (timeline, contentRevision, relevance))
        }
        return (relevance, always && !isRecorded ? (timeline, 0, relevance) : nil)
    }
}

private let relevanceInput = InputColumns<RelevanceWrite>([
    .init("timeline_id") { $0.timeline }, .init("revision") { $0.revision },
    .init("history") { $0.relevance.history.encoded }, .init("points") { $0.relevance.curve.encoded },
])

/// Nothing is stored for a timeline that was collected meanwhile.
private let writeRelevanceSQL = """
    INSERT INTO relevance AS r (timeline_id, revision, history, points)
    SELECT i.timeline_id, i.revision, i.history, i.points
    FROM \(relevanceInput.rows("i")) JOIN timeline t ON t.id = i.timeline_id
    ORDER BY i.timeline_id
    ON CONFLICT (timeline_id) DO UPDATE
        SET revision = excluded.revision, history = excluded.history, points = excluded.points
        WHERE r.revision < excluded.revision
    """

private let takeChangesSQL = """
    WITH taken AS MATERIALIZED (
        SELECT c.seq, c.timeline_id FROM relevance_change c ORDER BY c.seq LIMIT $1::int8 FOR UPDATE SKIP LOCKED
    )
    SELECT c.seq, t.id IS NOT NULL AS found, \(StoredRelevance.columns)
    FROM taken c LEFT JOIN timeline t ON t.id = c.timeline_id LEFT JOIN relevance r ON r.timeline_id = t.id
    ORDER BY c.seq
    """

/// Makes due the first schedules of the changes in order. A change is deleted with its last schedule; where the
/// statement stops, the change goes behind the others, so that a timeline in very many stacks does not hold them up.
/// Further changes of a timeline are one, which waits until the one that was begun is done.
private let finishChangesSQL = """
    WITH taken AS MATERIALIZED (
        SELECT c.seq, c.timeline_id, c.schedule_id,
               bool_or(c.schedule_id IS NOT NULL) OVER (PARTITION BY c.timeline_id) AS is_begun,
               c.schedule_id IS NULL AND row_number() OVER (
                   PARTITION BY c.timeline_id, c.schedule_id IS NULL ORDER BY c.seq) > 1 AS is_repeated
        FROM relevance_change c WHERE c.seq = ANY ($1::int8[])
    ), walked AS MATERIALIZED (
        SELECT t.seq, t.timeline_id, t.schedule_id FROM taken t
        WHERE t.schedule_id IS NOT NULL OR NOT t.is_begun AND NOT t.is_repeated
    ), links AS MATERIALIZED (
        SELECT c.seq, l.schedule_id FROM walked c CROSS JOIN LATERAL (
            SELECT l.schedule_id FROM stack_timeline l
            WHERE l.timeline_id = c.timeline_id AND (c.schedule_id IS NULL OR l.schedule_id > c.schedule_id)
            ORDER BY l.schedule_id LIMIT $2::int8
        ) l
        ORDER BY c.seq, l.schedule_id LIMIT $2::int8
    ), stop AS MATERIALIZED (
        SELECT l.seq, l.schedule_id FROM links l
        WHERE (SELECT count(*) FROM links) = $2::int8
        ORDER BY l.seq DESC, l.schedule_id DESC LIMIT 1
    ), locked AS MATERIALIZED (
        SELECT s.id FROM stack_schedule s
        WHERE s.id IN (SELECT l.schedule_id FROM links l) AND s.due_at > now()
        ORDER BY s.id
        FOR NO KEY UPDATE
    ), due AS (
        UPDATE stack_schedule s SET due_at = now() FROM locked l WHERE s.id = l.id
    ), stopped AS (
        UPDATE relevance_change c SET seq = DEFAULT, schedule_id = s.schedule_id FROM stop s WHERE c.seq = s.seq
    ), waiting AS (
        UPDATE relevance_change c SET seq = DEFAULT FROM taken t
        WHERE c.seq = t.seq AND t.schedule_id IS NULL AND t.is_begun AND NOT t.is_repeated
    ), finished AS (
        DELETE FROM relevance_change c
        WHERE c.seq = ANY (ARRAY(SELECT t.seq FROM taken t WHERE t.is_repeated)) OR c.seq = ANY (ARRAY(
            SELECT w.seq FROM walked w
            WHERE w.seq < coalesce((SELECT s.seq FROM stop s), 9223372036854775807)))
        RETURNING c.seq
    )
    SELECT count(*) AS finished FROM finished
    """

extension WidgetStore {
    /// The relevance of a widget's timeline as a plan of its stack uses it; nil: there is no such widget.
    package func relevance(of widget: String, app: String) async throws(PostgresError) -> RelevanceRecord? {
        try await query(.readWidgetRelevance(app: app, widget: widget)).first?.recorded(always: false).relevance
    }

    /// Records the relevance of changed timelines, and makes due the schedules of the stacks that show them.
    ///
    /// - Parameters:
    ///   - limit: most changes.
    ///   - schedules: most schedules to make due; the rest is left for the next call.
    /// - Returns: whether changes may be left.
    package func gatherRelevanceChanges(limit: Int, schedules: Int) async throws -> Bool {
        try await retryingConflicts {
            try await pool.withTransaction { connection in
                let changes = try await connection.query(.takeRelevanceChanges(limit: limit))
                guard !changes.isEmpty else { return false }
                var writes: [Int64: RelevanceWrite] = [:]
                for stored in changes.compactMap(\.stored) {
                    if let write = stored.recorded(always: false).write { writes[stored.timeline] = write }
                }
                var pipeline = PostgresPipeline()
                if !writes.isEmpty { _ = pipeline.append(.writeRelevance(Array(writes.values))) }
                let finished = pipeline.append(.finishRelevanceChanges(changes.map(\.seq), schedules: schedules))
                let count = try await connection.run(pipeline).rows(finished).first ?? 0
                return changes.count == limit || count < changes.count
            }
        }
    }
}

extension PostgresStatement where Self == Statements {
    /// Stores relevance unless that of later content is stored. From then on, all changes of the timeline's content are
    /// noted.
    package static func writeRelevance(_ writes: [RelevanceWrite]) -> PostgresQuery<Void> {
        PostgresQuery(writeRelevanceSQL, binding: relevanceInput.parameters(writes))
    }

    /// Reads the stored relevance of the timeline that a widget shows.
    package static func readWidgetRelevance(app: String, widget: String) -> PostgresQuery<StoredRelevance> {
        PostgresQuery(
            """
            SELECT \(StoredRelevance.columns)
            FROM app a JOIN widget w ON w.app_id = a.id JOIN timeline t ON t.id = w.timeline_id
            LEFT JOIN relevance r ON r.timeline_id = t.id
            WHERE a.name = $1::text AND w.id = $2::text
            """, app, widget
        ) { row in try StoredRelevance(row) }
    }

    /// Locks changes and reads the stored relevance of their timelines. Those that another process has locked are left
    /// out.
    package static func takeRelevanceChanges(limit: Int) -> PostgresQuery<(seq: Int64, stored: StoredRelevance?)> {
        PostgresQuery(takeChangesSQL, limit) { row in
            try (seq: row.value("seq"), stored: row.value("found") ? StoredRelevance(row) : nil)
        }
    }

    /// Makes schedules of changed timelines due, and returns the number of changes that are done.
    package static func finishRelevanceChanges(_ changes: [Int64], schedules: Int) -> PostgresQuery<Int64> {
        PostgresQuery(finishChangesSQL, PostgresArray(changes), schedules) { row in try row.value("finished") }
    }
}
