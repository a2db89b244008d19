import PostgresClient
import WidgetModel

/// The table that a chunk of an import is copied into. It lives as long as its connection and is emptied with each
/// transaction.
package enum ImportTable {
    /// `timeline_id` and `old_timeline_id`: what the widget shows from now on, and what it showed before.
    package static let create = """
        SET LOCAL client_min_messages = warning;
        CREATE TEMPORARY TABLE IF NOT EXISTS freshet_import (
            app_id int NOT NULL,
            id text COLLATE "C" NOT NULL,
            kind_id int NOT NULL,
            family smallint NOT NULL,
            user_id text COLLATE "C" NOT NULL,
            device_id text COLLATE "C" NOT NULL,
            locale text NOT NULL,
            time_zone text NOT NULL,
            changed_at timestamptz NOT NULL,
            timeline_id uuid NOT NULL,
            timeline_family smallint,
            timeline_configuration text NOT NULL,
            timeline_locale text,
            timeline_time_zone text,
            timeline_user_id text COLLATE "C",
            is_stored boolean NOT NULL DEFAULT false,
            old_timeline_id uuid
        ) ON COMMIT DELETE ROWS
        """

    package static let copy = """
        COPY freshet_import (app_id, id, kind_id, family, user_id, device_id, locale, time_zone, changed_at,
                             timeline_id, timeline_family, timeline_configuration, timeline_locale,
                             timeline_time_zone, timeline_user_id)
        FROM STDIN (FORMAT binary)
        """

    /// Without it the planner thinks the table empty, or full, and reads all of `widget`.
    package static let analyze = "ANALYZE freshet_import"
}

/// Locks the stored widgets of the chunk in key order, and notes what they show.
struct LockImportedWidgets: PostgresStatement {
    static let sql = """
        WITH locked AS MATERIALIZED (
            SELECT w.app_id, w.id, w.timeline_id FROM freshet_import i
            JOIN widget w ON w.app_id = i.app_id AND w.id = i.id
            ORDER BY w.app_id, w.id
            FOR NO KEY UPDATE OF w
        )
        UPDATE freshet_import i SET is_stored = true, old_timeline_id = l.timeline_id
        FROM locked l WHERE i.app_id = l.app_id AND i.id = l.id
        """
}

/// Drops from the chunk what is older than the widget that is stored; answers how many.
struct DropOlderImports: PostgresStatement {
    static let sql = """
        DELETE FROM freshet_import i USING widget w
        WHERE i.is_stored AND w.app_id = i.app_id AND w.id = i.id AND w.changed_at > i.changed_at
        """
}

/// Locks the hot rows of the timelines that are shown, before and after, in key order.
struct LockImportedTimelines: PostgresStatement {
    static let sql = """
        SELECT 1 FROM timeline_state s
        WHERE s.timeline_id IN (SELECT timeline_id FROM freshet_import
                                UNION SELECT old_timeline_id FROM freshet_import WHERE old_timeline_id IS NOT NULL)
        ORDER BY s.timeline_id
        FOR NO KEY UPDATE
        """
}

/// Makes the chunk's timelines exist: new ones, and those that were about to be collected, are due now in the bulk
/// lane; the others are left as they are. Answers how many became due.
struct PlaceImportedTimelines: PostgresStatement {
    static let sql = """
        WITH input AS MATERIALIZED (
            SELECT DISTINCT ON (timeline_id) timeline_id AS id, kind_id, timeline_family AS family,
                   timeline_configuration AS configuration, timeline_locale AS locale,
                   timeline_time_zone AS time_zone, timeline_user_id AS user_id
            FROM freshet_import ORDER BY timeline_id
        ), cold AS (
            INSERT INTO timeline (id, kind_id, family, configuration, locale, time_zone, user_id)
            SELECT id, kind_id, family, configuration, locale, time_zone, user_id FROM input ORDER BY id
            ON CONFLICT (id) DO NOTHING
        ), hot AS (
            INSERT INTO timeline_state AS s (timeline_id, kind_id, requested, free_requested, swept_generation, due_at,
                                             lane, requested_at, cause_reason)
            SELECT i.id, i.kind_id, 1, 1, k.generation + a.generation, now(), \(ReloadLane.bulk.rawValue), now(),
                   \(ReloadReason.placed.rawValue)
            FROM input i JOIN kind k ON k.id = i.kind_id JOIN app a ON a.id = k.app_id
            ORDER BY i.id
            ON CONFLICT (timeline_id) DO UPDATE
                SET orphaned = false, requested = s.requested + 1, free_requested = s.requested + 1,
                    swept_generation = least(s.swept_generation, excluded.swept_generation),
                    due_at = \(MarkFormula.dueAt(free: "true", forced: "s.orphaned")),
                    free_at = \(MarkFormula.freeAt(forced: "s.orphaned")),
                    published_hash = CASE WHEN NOT s.orphaned THEN s.published_hash END, requested_at = now(),
                    cause_reason = excluded.cause_reason
                WHERE s.orphaned OR s.view_class = \(ViewClass.dormant.rawValue)
            RETURNING s.timeline_id
        )
        SELECT count(*) FROM hot
        """

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.value(0)
    }
}

/// Writes the chunk's widgets that were not stored. If one has appeared since, the transaction fails as a serialization
/// failure and is to be tried again as a whole.
struct InsertImportedWidgets: PostgresStatement {
    static let sql = """
        WITH written AS (
            INSERT INTO widget (app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone,
                                placed_at, changed_at)
            SELECT app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone,
                   changed_at, changed_at
            FROM freshet_import WHERE NOT is_stored ORDER BY app_id, id
            ON CONFLICT (app_id, id) DO NOTHING
            RETURNING 1
        )
        SELECT require_widgets((SELECT count(*) FROM written),
                               (SELECT count(*) FROM freshet_import WHERE NOT is_stored))
        """
}

/// Writes the chunk's widgets that are stored and locked. One that was removed is placed again.
struct UpdateImportedWidgets: PostgresStatement {
    static let sql = """
        UPDATE widget w
        SET kind_id = i.kind_id, family = i.family, timeline_id = i.timeline_id, user_id = i.user_id,
            device_id = i.device_id, locale = i.locale, time_zone = i.time_zone, changed_at = i.changed_at,
            placed_at = CASE WHEN w.timeline_id IS NULL THEN i.changed_at ELSE w.placed_at END
        FROM freshet_import i WHERE i.is_stored AND w.app_id = i.app_id AND w.id = i.id
        """
}

/// The timelines that the chunk's widgets have stopped showing.
struct DepartedImportTimelines: PostgresStatement {
    static let sql = """
        SELECT DISTINCT old_timeline_id FROM freshet_import
        WHERE old_timeline_id IS NOT NULL AND old_timeline_id <> timeline_id
        ORDER BY 1
        """

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> TimelineID {
        TimelineID(try row.value(0, as: PostgresUUID.self))
    }
}
