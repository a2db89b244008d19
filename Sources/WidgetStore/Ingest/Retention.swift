// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
import WidgetModel

/// Last row of an app in excess of its limit.
package typealias RowLimit = (appID: Int32, last: Int64)

/// Chunk of a round that deletes old rows, with the place from which the round goes on; nil at its end.
package typealias DeletedChunk = (deleted: Int, next: Int64?)

/// Expression of the percentage for `TABLESAMPLE SYSTEM` of a sample that reads a bounded number of pages; of a small
/// table, all of them.
func samplePercent(of table: String) -> String {
    """
    least(100, 100.0 * 2000 * current_setting('block_size')::int8 / greatest(pg_relation_size('\(table)'), 1))::real
    """
}

// SQL that deletes the old rows of a table with `seq`, `app_id` and `recorded_at`. A round walks the table once in the
// order of `seq`, which is that of `recorded_at`, so that the cost of a chunk does not depend on the size of the table.

/// CTE `deleted`: the deleted rows of the chunk of up to `$3` rows behind `$2` that are older than `$1` milliseconds,
/// or beyond their app's limit (`$4` and `$5`).
func deletedRows(from table: String, returning columns: String = "e.seq") -> String {
    """
    WITH chunk AS MATERIALIZED (
        SELECT e.seq, e.app_id, e.recorded_at < now() - $1::int8 * interval '1 millisecond' AS is_old
        FROM \(table) e WHERE e.seq > $2::int8 ORDER BY e.seq LIMIT $3::int8
    ), excess AS MATERIALIZED (
        SELECT l.app_id, l.last FROM unnest($4::int4[], $5::int8[]) l (app_id, last)
    ), deleted AS (
        DELETE FROM \(table) e
        WHERE e.seq = ANY (ARRAY(
            SELECT c.seq FROM chunk c LEFT JOIN excess x ON x.app_id = c.app_id
            WHERE c.is_old OR c.seq <= x.last))
        RETURNING \(columns)
    )
    """
}

/// The columns of ``DeletedChunk``. The round ends at the first chunk without an old row behind all limits.
let deletedChunkColumns = """
    (SELECT count(*) FROM deleted) AS deleted,
    (SELECT max(c.seq) FROM chunk c
     HAVING count(*) = $3::int8 AND (bool_or(c.is_old) OR max(c.seq) < (SELECT max(x.last) FROM excess x))) AS next
    """

/// The column `next` of ``DeletedChunk`` of a chunk of up to `$3` rows in the order of a time.
func nextPlace(after time: String, in rows: String) -> String {
    """
    (SELECT (extract(epoch FROM max(\(time))) * 1000000)::int8 FROM \(rows) HAVING count(*) = $3::int8) AS next
    """
}

/// Query for the age of the first row by a time, or by another order of the rows; no row without one. A time that is
/// infinite counts as now, since nothing can be subtracted from it.
func ageOfOldest(
    _ time: String, in rows: String, by order: String? = nil, function: String = #function
) -> PostgresQuery<Duration> {
    PostgresQuery(
        """
        SELECT extract(epoch FROM now() - CASE WHEN isfinite(\(time)) THEN \(time) ELSE now() END)::float8 AS age
        FROM \(rows) ORDER BY \(order ?? time) LIMIT 1
        """, binding: PostgresParameters(), function: function
    ) { row in .seconds(try row.value("age")) }
}

/// Query for the apps with more than `$1` rows, an estimate from a part of a large table.
private func excessRows(of table: String) -> String {
    """
    WITH share AS MATERIALIZED (SELECT \(samplePercent(of: table)) AS percent), sample AS (
        SELECT e.app_id, e.seq, row_number() OVER (PARTITION BY e.app_id ORDER BY e.seq DESC) AS place
        FROM \(table) e TABLESAMPLE SYSTEM ((SELECT percent FROM share))
    )
    SELECT m.app_id, max(m.seq) AS last FROM sample m, share s
    WHERE m.place * 100 / s.percent > $1::int8
    GROUP BY m.app_id
    """
}

func deletionQuery(
    _ sql: String, olderThan age: Duration, limits: [RowLimit], after place: Int64, limit: Int, function: String
) -> PostgresQuery<DeletedChunk> {
    PostgresQuery(
        sql,
        binding: PostgresParameters(
            age.wholeMilliseconds, place, limit, PostgresArray(limits.map(\.appID)),
            PostgresArray(limits.map(\.last))), function: function
    ) { row in try row.deletedChunk() }
}

private let beginRetentionSQL = """
    INSERT INTO retention AS r (name) VALUES ($1::text)
    ON CONFLICT (name) DO UPDATE SET active_at = now()
        WHERE r.active_at <= now() - $2::int8 * interval '1 millisecond'
    """

private let outcomesInExcessSQL = excessRows(of: "event_outcome")
private let keysInExcessSQL = excessRows(of: "idempotency_key")
private let unplacedInExcessSQL = excessRows(of: "unplaced_widget")

extension PostgresStatement where Self == Statements {
    /// Begins a round that deletes old rows, unless a process has deleted some within the interval. Changes one row, or
    /// none.
    package static func beginRetention(of rows: String, every interval: Duration) -> PostgresQuery<Void> {
        PostgresQuery(beginRetentionSQL, rows, interval.wholeMilliseconds)
    }

    /// Keeps other processes from deleting these rows for the interval.
    package static func continueRetention(of rows: String) -> PostgresQuery<Void> {
        PostgresQuery("UPDATE retention SET active_at = now() WHERE name = $1::text", rows)
    }

    /// Apps with too many outcomes, an estimate where there are many.
    package static func outcomesInExcess(of count: Int) -> PostgresQuery<RowLimit> {
        PostgresQuery(outcomesInExcessSQL, count) { row in try row.rowLimit() }
    }

    /// Apps with too many idempotency keys, an estimate where there are many.
    package static func keysInExcess(of count: Int) -> PostgresQuery<RowLimit> {
        PostgresQuery(keysInExcessSQL, count) { row in try row.rowLimit() }
    }

    /// Apps with too many tombstones of widgets that were never placed, an estimate where there are many.
    package static func unplacedInExcess(of count: Int) -> PostgresQuery<RowLimit> {
        PostgresQuery(unplacedInExcessSQL, count) { row in try row.rowLimit() }
    }
}

extension PostgresRow {
    func deletedChunk() throws(PostgresError) -> DeletedChunk {
        try (deleted: value("deleted"), next: optional("next"))
    }

    fileprivate func rowLimit() throws(PostgresError) -> RowLimit { try (appID: value("app_id"), last: value("last")) }
}
