package import PostgresClient
package import WidgetModel

/// Deletes the user's widgets, tombstones of removed ones included, in key order; answers the timelines that they showed.
package struct DeleteWidgetsOfUser: PostgresStatement {
    package static let sql = """
        WITH locked AS (
            SELECT w.app_id, w.id FROM widget w
            WHERE w.app_id = $1::int4 AND w.user_id = $2::text
            ORDER BY w.app_id, w.id
            FOR UPDATE
        )
        DELETE FROM widget w USING locked l WHERE w.app_id = l.app_id AND w.id = l.id
        RETURNING w.timeline_id
        """

    let appID: Int32
    let user: String

    package init(appID: Int32, user: String) {
        self.appID = appID
        self.user = user
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(appID)
        parameters.append(user)
    }

    /// `nil` for the tombstone of a removed widget.
    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> TimelineID? {
        try row.optional(0, as: PostgresUUID.self).map { TimelineID($0) }
    }
}

/// Deletes what is stored of the user's own timelines at once, and takes the claim away from any worker that is fetching
/// one, so that its result is dropped. The tombstones follow when the orphaned rows are collected.
package struct DeleteContentOfUser: PostgresStatement {
    package static let sql = """
        WITH own AS (
            SELECT t.id FROM timeline t WHERE t.id = ANY ($1::uuid[]) AND t.user_id = $2::text
        ), fenced AS (
            UPDATE timeline_state s
            SET claim = nextval('timeline_claim'), leased = false, due_at = now(), published_hash = NULL
            FROM own o WHERE s.timeline_id = o.id
            RETURNING s.timeline_id
        ), snapshots AS (
            DELETE FROM snapshot p USING fenced f WHERE p.timeline_id = f.timeline_id
        )
        DELETE FROM timeline_content c USING fenced f WHERE c.timeline_id = f.timeline_id
        """

    let ids: [TimelineID]
    let user: String

    package init(_ ids: [TimelineID], user: String) {
        self.ids = ids
        self.user = user
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: ids.map { PostgresUUID($0) })
        parameters.append(user)
    }
}

/// Deletes the dead letters of an app whose key is the user.
package struct DeleteDeadLettersOfUser: PostgresStatement {
    package static let sql = "DELETE FROM dead_letter WHERE app = $1::text AND key = $2::bytea"

    let app: String
    let user: String

    package init(app: String, user: String) {
        self.app = app
        self.user = user
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(PostgresBytes(Array(user.utf8)))
    }
}
