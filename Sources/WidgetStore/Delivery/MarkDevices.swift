package import PostgresClient
package import WidgetModel

/// Result of marking the devices of a change.
package struct MarkedDevices: Sendable {
    /// Widgets on registered devices.
    package let widgets: Int64
    /// Devices marked.
    package let devices: Int64
    /// Whether there was a change at all.
    package let isFound: Bool
    /// When the earliest appended list is due; nil: none was appended.
    package let nextDue: Timestamp?
}

/// Widgets that show the timelines of the change, in order and behind its cursor. A shared timeline has a branch of its own,
/// so that each chunk is one range of the index.
private let markDevicesSQL = """
    WITH change AS MATERIALIZED (
        SELECT c.id, c.changed_at, c.shared, c.urgent, c.cursor_app, c.cursor_widget, c.timelines
        FROM delivery_change c ORDER BY c.id LIMIT 1 FOR UPDATE SKIP LOCKED
    ), shown AS MATERIALIZED (
        (SELECT w.app_id, w.id, w.user_id, w.device_id, w.kind_id FROM widget w
         WHERE w.timeline_id = (SELECT shared FROM change)
             AND (w.app_id, w.id) > ((SELECT cursor_app FROM change), (SELECT cursor_widget FROM change))
         ORDER BY w.app_id, w.id LIMIT $1::int8)
        UNION ALL
        (SELECT w.app_id, w.id, w.user_id, w.device_id, w.kind_id FROM widget w
         WHERE w.timeline_id = ANY (ARRAY(SELECT unnest(timelines) FROM change WHERE shared IS NULL))
             AND (w.app_id, w.id) > ((SELECT cursor_app FROM change), (SELECT cursor_widget FROM change))
         ORDER BY w.app_id, w.id LIMIT $1::int8)
    ), locked AS MATERIALIZED (
        SELECT r.id, r.app_id, r.listed_at, d.kinds, greatest(r.retry_at, CASE
            WHEN c.urgent THEN now()
            WHEN r.eligible_at <= now() + $2::int8 * interval '1 millisecond'
                THEN now() + $2::int8 * interval '1 millisecond'
            ELSE date_bin('1 second', r.eligible_at + interval '999 milliseconds', 'epoch') END) AS due_at
        FROM (SELECT app_id, user_id, device_id, array_agg(kind_id) AS kinds FROM shown GROUP BY 1, 2, 3) d
        JOIN registration r USING (app_id, user_id, device_id), change c
        WHERE r.channel <> 0
        ORDER BY r.id FOR NO KEY UPDATE OF r
    ), marked AS (
        UPDATE registration r
        SET changed = r.changed + 1, listed_at = least(r.listed_at, l.due_at),
            changed_at = CASE WHEN r.changed > r.sent THEN r.changed_at ELSE (SELECT changed_at FROM change) END
        FROM locked l WHERE r.id = l.id
    ), numbered AS (
        SELECT l.id, l.app_id, l.due_at,
               (row_number() OVER (PARTITION BY l.app_id, l.due_at ORDER BY l.id) - 1) / \(deliveryListLimit) AS part
        FROM locked l WHERE l.due_at < l.listed_at
    ), appended AS (
        INSERT INTO delivery (app_id, due_at, ready_at, registrations)
        SELECT app_id, due_at, due_at, array_agg(id ORDER BY id) FROM numbered GROUP BY app_id, due_at, part
        RETURNING due_at
    ), counted AS (
        INSERT INTO delivery_statistics AS s (kind_id, hour, changes)
        SELECT k.id, date_trunc('hour', now()), count(*) FROM locked l CROSS JOIN unnest(l.kinds) k (id)
        GROUP BY k.id ORDER BY k.id
        ON CONFLICT (kind_id, hour) DO UPDATE SET changes = s.changes + excluded.changes
    ), ended AS (
        DELETE FROM delivery_change c USING change n WHERE c.id = n.id AND (SELECT count(*) FROM shown) < $1::int8
    ), advanced AS (
        UPDATE delivery_change c SET cursor_app = l.app_id, cursor_widget = l.id
        FROM change n, (SELECT app_id, id FROM shown ORDER BY app_id DESC, id DESC LIMIT 1) l
        WHERE c.id = n.id AND (SELECT count(*) FROM shown) >= $1::int8
    )
    SELECT (SELECT count(*) FROM shown) AS widgets, (SELECT count(*) FROM locked) AS devices,
           EXISTS (SELECT FROM change) AS found, (SELECT min(due_at) FROM appended) AS next_due
    """

/// Most devices in a list.
let deliveryListLimit = 500

extension PostgresStatement where Self == Statements {
    /// Marks the devices that show the timelines of the earliest change, a chunk of them if there are many, and appends lists for
    /// those that are not to be told sooner anyway.
    ///
    /// - Parameters:
    ///   - limit: most widgets of the chunk.
    ///   - window: time for which further changes are gathered.
    package static func markDevices(limit: Int, window: Duration) -> PostgresQuery<MarkedDevices> {
        PostgresQuery(markDevicesSQL, limit, window.wholeMilliseconds) { row in
            MarkedDevices(
                widgets: try row.value("widgets"), devices: try row.value("devices"), isFound: try row.value("found"),
                nextDue: try row.optional("next_due"))
        }
    }
}
