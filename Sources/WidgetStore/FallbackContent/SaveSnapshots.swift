package import PostgresClient
import WidgetModel

/// A snapshot to store: the timeline's primary key, the fetch's token, and canonical JSON of one entry.
package typealias SnapshotWrite = (row: Int64, token: Int64, entry: String)

private let input = InputColumns<SnapshotWrite>([
    .init("id") { $0.row }, .init("token") { $0.token }, .init("entry") { $0.entry },
])

private let saveSnapshotsSQL = """
    WITH live AS MATERIALIZED (
        SELECT i.id, i.token, i.entry
        FROM \(input.rows("i")) JOIN timeline t ON t.id = i.id AND t.content_revision = 0 AND NOT t.orphaned
        ORDER BY t.id
        FOR SHARE OF t
    ), stored AS (
        INSERT INTO snapshot AS p (timeline_id, revision, entry)
        SELECT l.id, l.token, l.entry FROM live l
        ON CONFLICT (timeline_id) DO UPDATE
            SET revision = excluded.revision, entry = excluded.entry, stored_at = now()
            WHERE p.revision <= excluded.revision
        RETURNING 1
    )
    SELECT count(*) AS stored FROM stored
    """

extension PostgresStatement where Self == Statements {
    /// Stores snapshots of shown timelines without content, unless a later fetch has stored one. Returns the number
    /// stored.
    package static func saveSnapshots(_ writes: [SnapshotWrite]) -> PostgresQuery<Int> {
        PostgresQuery(saveSnapshotsSQL, binding: input.parameters(writes)) { row in try row.value("stored") }
    }
}
