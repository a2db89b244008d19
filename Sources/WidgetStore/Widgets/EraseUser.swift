package import PostgresClient
import WidgetModel

package struct ErasedDeadLetters: Sendable {
    /// Last id of the chunk; `nil`: there are no more letters.
    package let last: Int64?
    package let deleted: Int
}

extension PostgresStatement where Self == Statements {
    /// Deletes the user's widgets, tombstones of removed ones included, in key order; answers the timelines that they showed.
    package static func deleteWidgetsOfUser(appID: Int32, user: String) -> PostgresQuery<Int64?> {
        PostgresQuery(
            """
            WITH locked AS (
                SELECT w.app_id, w.id FROM widget w
                WHERE w.app_id = $1::int4 AND w.user_id = $2::text
                ORDER BY w.app_id, w.id
                FOR UPDATE
            )
            DELETE FROM widget w USING locked l WHERE w.app_id = l.app_id AND w.id = l.id
            RETURNING w.timeline_id
            """, appID, user
        ) { row in try row.optional("timeline_id") }
    }

    /// Deletes the content and the snapshots of the user's own timelines at once. The new revision has every fetch under way
    /// dropped. The tombstones follow when the orphaned rows are collected. The rows must have been locked earlier in the
    /// transaction.
    package static func deleteContentOfUser(_ rows: [Int64], user: String) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH fenced AS (
                UPDATE timeline t
                SET revision = nextval('token'), content_revision = 0, content = NULL, hash = NULL, stored_at = NULL,
                    rendered_at = NULL
                WHERE t.id = ANY ($1::int8[]) AND t.user_id = $2::text
                RETURNING t.id
            )
            DELETE FROM snapshot p USING fenced f WHERE p.timeline_id = f.id
            """, PostgresArray(rows), user
        )
    }

    /// Deletes, of the next dead letters in the order of their ids, those of an app whose key is the user, whose header
    /// `freshet-user` is, or whose data names the user as the API's placements do.
    ///
    /// - Parameter previous: id after which the chunk begins.
    package static func deleteDeadLettersOfUser(app: String, user: String, after previous: Int64) -> PostgresQuery<
        ErasedDeadLetters
    > {
        let member = Array(#""user":"#.utf8) + JSONValue.string(user).encoded
        return PostgresQuery(
            """
            WITH chunk AS MATERIALIZED (
                SELECT d.id FROM dead_letter d WHERE d.id > $4::int8 ORDER BY d.id LIMIT 1000
            ), deleted AS (
                DELETE FROM dead_letter d USING chunk c
                WHERE d.id = c.id AND d.app = $1::text
                  AND (d.key = $2::bytea OR position($3::bytea IN d.payload) > 0
                       OR EXISTS (SELECT 1 FROM unnest(d.header_names, d.header_values) h (name, value)
                                  WHERE lower(h.name) = 'freshet-user' AND h.value = $2::bytea))
                RETURNING 1
            )
            SELECT (SELECT max(c.id) FROM chunk c) AS last, (SELECT count(*) FROM deleted) AS deleted
            """, app, Array(user.utf8), member, previous
        ) { row in ErasedDeadLetters(last: try row.optional("last"), deleted: try row.value("deleted")) }
    }

    /// Deletes the outcomes of events that a user's tokens have published.
    package static func deleteOutcomesOfUser(appID: Int32, user: String) -> PostgresQuery<Void> {
        PostgresQuery("DELETE FROM event_outcome WHERE app_id = $1::int4 AND user_id = $2::text", appID, user)
    }
}
