package import PostgresClient
package import WidgetModel

/// A snapshot to store.
package struct SnapshotWrite: Sendable {
    package var id: TimelineID
    package var claim: Int64
    /// Canonical JSON of one entry.
    package var entry: String

    package init(id: TimelineID, claim: Int64, entry: String) {
        self.id = id
        self.claim = claim
        self.entry = entry
    }
}

/// Stores snapshots of timelines that have no content yet, only for rows whose claim is still this worker's: what a
/// fenced worker brings is dropped, and a snapshot never comes after its timeline.
package struct SaveSnapshots: PostgresStatement {
    package static let sql = """
        WITH input AS (
            SELECT * FROM unnest($1::uuid[], $2::int8[], $3::text[]) AS i (id, claim, entry)
        ), live AS MATERIALIZED (
            SELECT i.id, i.claim, i.entry
            FROM input i JOIN timeline_state s ON s.timeline_id = i.id AND s.claim = i.claim AND NOT s.orphaned
            ORDER BY s.timeline_id
            FOR NO KEY UPDATE OF s
        ), stored AS (
            INSERT INTO snapshot AS p (timeline_id, revision, entry)
            SELECT l.id, l.claim, l.entry FROM live l
            WHERE NOT EXISTS (SELECT 1 FROM timeline_content c WHERE c.timeline_id = l.id)
            ON CONFLICT (timeline_id) DO UPDATE
                SET revision = excluded.revision, entry = excluded.entry, stored_at = now()
            RETURNING 1
        )
        SELECT count(*) FROM stored
        """

    let writes: [SnapshotWrite]

    package init(_ writes: [SnapshotWrite]) {
        self.writes = writes
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: writes.map { PostgresUUID($0.id) })
        parameters.append(array: writes.map(\.claim))
        parameters.append(array: writes.map(\.entry))
    }

    /// How many were stored.
    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.value(0)
    }
}
