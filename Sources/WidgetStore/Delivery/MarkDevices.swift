// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
import WidgetModel

/// Result of marking the devices of a change.
package struct MarkedDevices: Sendable {
    /// Number of marked devices.
    package let devices: Int
    /// App of the change; nil: there was none.
    package let app: Int32?
    /// Whether the change waits until lists of its app are done.
    package let isHeldUp: Bool
}

/// Most devices in a list.
let deliveryListLimit = 500

/// Most timelines that are remembered as stale on a device.
private let staleLimit = 500

/// Appointments that come sooner are not moved to an earlier time: their list could be claimed before the move is
/// committed, and the device would be notified for both.
private let leastAdvance = "interval '250 milliseconds'"

/// SQL that rounds a time up to a grid, so that devices that become due at about the same time share a list. The grid's
/// offset is that of the statement: a device that is listed twice for about the same time has two different times, of
/// which only the later one is its appointment.
func onDeliveryGrid(_ time: String, width: String) -> String {
    """
    date_bin(\(width), \(time) + \(width), 'epoch') + (now() - date_bin('100 milliseconds', now(), 'epoch'))
    """
}

/// SQL for a column of the changed timelines `d` that become stale on a device `r`, in the order of their ids.
private func newlyStale(_ column: String) -> String {
    """
    ARRAY(SELECT x.\(column) FROM unnest(d.timelines, d.revisions) x (id, revision)
          WHERE cardinality(r.stale_timelines) < \(staleLimit) AND x.id <> ALL (r.stale_timelines)
              AND x.revision > coalesce(r.fetched_revisions[array_position(r.fetched_timelines, x.id)], 0)
          ORDER BY x.id)
    """
}

/// Marks the devices that show the timelines of one change, at most `$1` widgets, and appends their lists.
///
/// Locks rows in the order that all statements on registrations follow: the change, registrations by id, statistics by
/// kind. A change that was raised after the statement's snapshot is left to the next call: the lock brings it up to
/// date, but the timeline's revision, which devices are compared with, is that of the snapshot.
///
/// Statements that lock or update rows carry whole rows of what they join, so the change, which names thousands of
/// timelines, is not joined but read by subqueries.
///
/// - Parameters:
///   - change: condition on the change `c`.
///   - widgets: condition on the widgets `w` that show the timelines.
///   - room: condition without which nothing is marked.
///   - advance: assignments that a change with more widgets gets besides the cursor.
private func markSQL(change: String, widgets: String, room: String = "true", advance: String = "") -> String {
    """
    WITH change AS MATERIALIZED (
        SELECT c.*, CASE WHEN c.is_second_round THEN c.end_app ELSE 2147483647 END AS last_app
        FROM delivery_change c WHERE \(change) ORDER BY c.id LIMIT 1 FOR UPDATE SKIP LOCKED
    ), room AS MATERIALIZED (
        SELECT free.is_free, free.is_free AND EXISTS (
            SELECT FROM change n JOIN delivery_change s ON s.id = n.id AND s.changed_at = n.changed_at) AS is_left
        FROM (SELECT \(room) AS is_free FROM change) free
    ), shown AS MATERIALIZED (
        SELECT w.app_id, w.id, w.user_id, w.device_id, w.timeline_id FROM widget w
        WHERE \(widgets) AND (SELECT is_left FROM room)
            AND (w.app_id, w.id) > ((SELECT cursor_app FROM change), (SELECT cursor_widget FROM change))
            AND (w.app_id, w.id) <= ((SELECT last_app FROM change), (SELECT end_widget FROM change))
        ORDER BY w.app_id, w.id LIMIT $1::int8
    ), content AS MATERIALIZED (
        SELECT t.id, t.kind_id, t.content_revision FROM timeline t
        WHERE t.id = ANY (ARRAY(SELECT DISTINCT timeline_id FROM shown))
    ), devices AS (
        SELECT s.app_id, s.user_id, s.device_id, array_agg(c.id) AS timelines, array_agg(c.content_revision) AS revisions
        FROM (SELECT DISTINCT app_id, user_id, device_id, timeline_id FROM shown) s JOIN content c ON c.id = s.timeline_id
        GROUP BY s.app_id, s.user_id, s.device_id
    ), locked AS MATERIALIZED (
        SELECT r.id, r.app_id, r.listed_at, \(newlyStale("id")) AS fresh, \(newlyStale("revision")) AS revisions,
               greatest(r.retry_at, CASE
                   WHEN (SELECT urgent FROM change) THEN greatest(now(), r.sent_at + $2::int8 * interval '1 millisecond')
                   ELSE greatest(now() + $2::int8 * interval '1 millisecond', r.eligible_at) END) AS earliest
        FROM devices d JOIN registration r USING (app_id, user_id, device_id)
        WHERE r.channel <> 0
        ORDER BY r.id FOR NO KEY UPDATE OF r
    ), due AS MATERIALIZED (
        SELECT l.id, l.app_id, l.listed_at, l.fresh, l.revisions, CASE
            WHEN l.listed_at <= clock_timestamp() + \(leastAdvance) THEN l.listed_at
            WHEN l.earliest <= now() + $2::int8 * interval '1 millisecond' AND NOT c.urgent OR l.earliest <= now()
                THEN l.earliest
            WHEN c.urgent THEN \(onDeliveryGrid("l.earliest", width: "interval '100 milliseconds'"))
            ELSE \(onDeliveryGrid("l.earliest", width: "interval '1 second'")) END AS due_at
        FROM locked l, change c
    ), marked AS (
        UPDATE registration r
        SET changed = r.changed + 1, listed_at = least(r.listed_at, d.due_at),
            urgent = CASE WHEN (SELECT urgent FROM change) THEN r.changed + 1 ELSE r.urgent END,
            changed_at = CASE WHEN r.changed > r.sent THEN r.changed_at ELSE (SELECT since FROM change) END,
            stale_timelines = r.stale_timelines || d.fresh,
            stale_revisions = r.stale_revisions || d.revisions,
            stale_since = r.stale_since || array_fill((SELECT since FROM change), ARRAY[cardinality(d.fresh)])
        FROM due d WHERE r.id = d.id
    ), numbered AS (
        SELECT d.id, d.app_id, d.due_at,
               (row_number() OVER (PARTITION BY d.app_id, d.due_at ORDER BY d.id) - 1) / \(deliveryListLimit) AS part
        FROM due d WHERE d.due_at < d.listed_at
    ), appended AS (
        INSERT INTO delivery (app_id, due_at, ready_at, registrations)
        SELECT app_id, due_at, due_at, array_agg(id ORDER BY id) FROM numbered GROUP BY app_id, due_at, part
    ), counted AS (
        INSERT INTO delivery_statistics AS s (kind_id, bucket, changes)
        SELECT t.kind_id, \(deliveryBucket(of: "c.since")), count(*)
        FROM (SELECT unnest(fresh) AS id FROM due) f JOIN content t ON t.id = f.id, change c
        GROUP BY t.kind_id, c.since ORDER BY t.kind_id
        ON CONFLICT (kind_id, bucket) DO UPDATE SET changes = s.changes + excluded.changes
    ), ended AS (
        DELETE FROM delivery_change c USING change n
        WHERE c.id = n.id AND (SELECT is_left FROM room) AND (SELECT count(*) FROM shown) < $1::int8
            AND (n.is_second_round OR (n.end_app, n.end_widget) = (0, ''))
    ), turned AS (
        UPDATE delivery_change c
        SET \(advance)is_second_round = true, since = c.changed_at, cursor_app = 0, cursor_widget = ''
        FROM change n
        WHERE c.id = n.id AND (SELECT is_left FROM room) AND (SELECT count(*) FROM shown) < $1::int8
            AND NOT (n.is_second_round OR (n.end_app, n.end_widget) = (0, ''))
    ), advanced AS (
        UPDATE delivery_change c SET \(advance)cursor_app = l.app_id, cursor_widget = l.id
        FROM change n, (SELECT app_id, id FROM shown ORDER BY app_id DESC, id DESC LIMIT 1) l
        WHERE c.id = n.id AND (SELECT count(*) FROM shown) >= $1::int8
    )
    SELECT (SELECT count(*) FROM locked) AS devices,
           (SELECT app_id FROM change) AS app, NOT (SELECT is_free FROM room) AS held_up
    """
}

private let markOwnedSQL = markSQL(
    change: "c.shared IS NULL",
    widgets: "w.timeline_id = ANY (ARRAY(SELECT unnest(timelines) FROM change))")

/// A new id puts the change behind the others, so that a very large one does not hold up small ones. Lists that are due
/// within the window count as waiting, since those of a walk that is under way become due together.
private let markSharedSQL = markSQL(
    change: "c.shared IS NOT NULL AND c.app_id <> ALL ($4::int4[])",
    widgets: "w.timeline_id = (SELECT shared FROM change)",
    room: """
        (SELECT count(*) FROM (
            SELECT FROM delivery d
            WHERE d.app_id = (SELECT app_id FROM change) AND d.ready_at <= now() + $2::int8 * interval '1 millisecond'
            LIMIT $3::int8
        ) w) < $3::int8
        """,
    advance: "id = DEFAULT, ")

extension PostgresStatement where Self == Statements {
    /// Marks the devices that show the personal timelines of the earliest change.
    ///
    /// - Parameters:
    ///   - limit: most widgets; a change with more is continued by the next call.
    ///   - window: time for which further changes are gathered.
    package static func markDevices(limit: Int, window: Duration) -> PostgresQuery<MarkedDevices> {
        PostgresQuery(markOwnedSQL, limit, window.wholeMilliseconds) { row in try row.marked() }
    }

    /// Marks a chunk of the devices that show a shared timeline that has changed, unless too many lists of its app wait
    /// already.
    ///
    /// - Parameters:
    ///   - backlog: number of waiting lists of an app from which on nothing is marked.
    ///   - apps: apps whose changes are left out.
    package static func markSharedDevices(
        limit: Int, window: Duration, backlog: Int, except apps: [Int32]
    ) -> PostgresQuery<MarkedDevices> {
        PostgresQuery(markSharedSQL, limit, window.wholeMilliseconds, backlog, PostgresArray(apps)) { row in
            try row.marked()
        }
    }
}

extension PostgresRow {
    fileprivate func marked() throws(PostgresError) -> MarkedDevices {
        let devices: Int64 = try value("devices")
        return try MarkedDevices(
            devices: Int(devices), app: optional("app"), isHeldUp: optional("held_up") ?? false)
    }
}
