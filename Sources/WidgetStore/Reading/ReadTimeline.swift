// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// A timeline's identity, state, and content or fallback content.
package struct TimelineDetail: Sendable {
    package let timeline: ClaimedTimeline
    package let app: String
    package let kind: String
    /// Lane of its appointment.
    package let lane: ReloadLane
    package let decision: Decision?
    /// The latest event that requested it.
    package let latestCause: EventPosition?
    package let storedAt: Timestamp?
    /// Canonical JSON of policy and entries; `nil` before the first successful fetch.
    package let content: [UInt8]?
    /// Link of the kind's widgets, as a template over the configuration.
    package let widgetURL: String?
    /// Content shown in place of missing content; nil with content.
    package let fallback: FallbackContent?

    package var id: TimelineID { timeline.id }
    /// Targeted requests so far, and those served by the last render.
    package var requested: Int64 { timeline.state.requested }
    package var rendered: Int64 { timeline.state.rendered }
    package var renderedAt: Timestamp? { timeline.renderedAt }
    package var attempts: Int16 { timeline.attempts }
    package var storedHash: ContentHash? { content == nil ? nil : timeline.hash }
    /// Revision of the content, under which it is published.
    package var revision: Int64? { content == nil ? nil : timeline.contentRevision }
    /// The database's time of the reading.
    package var readAt: Timestamp { timeline.readAt }

    /// Whether a request is newer than the stored content.
    package var isStale: Bool { timeline.isStale }

    /// Time of the next look; nil without one.
    package var nextLook: Timestamp? { timeline.state.nextLook(timeline.kind, at: readAt) }

    fileprivate init(_ row: borrowing PostgresRow) throws(PostgresError) {
        timeline = try ClaimedTimeline(row)
        app = try row.value("app")
        kind = try row.value("kind")
        lane = try row.lane("listed_lane")
        decision = try Decision(rawValue: row.value("last_decision"))
        latestCause = try row.cause(topic: "cause_topic", partition: "cause_partition", offset: "cause_offset")
        storedAt = try row.optional("stored_at")
        widgetURL = try row.optional("widget_url")
        content = try row.optional("content", as: PostgresTextBytes.self)?.bytes
        if content != nil {
            fallback = nil
        } else if let entry = try row.optional("snapshot", as: String.self) {
            fallback = .snapshot(entry: entry, storedAt: try row.value("snapshot_at"))
        } else if let placeholder = try row.optional("placeholder", as: String.self) {
            fallback = .placeholder(content: placeholder, fetchedAt: try row.optional("placeholder_at"))
        } else {
            fallback = .placeholder(content: try row.value("manifest"), fetchedAt: nil)
        }
    }
}

/// Query for a timeline `t` of a kind `k` of the app `$1` with its fallback content. The placeholder is for the
/// timeline's family and environment; `family` and `locale` complete them if the kind does not vary by them.
///
/// - Parameter known: condition of content that the reader has and that is left out.
private func reading(
    _ source: String, widget: String = "NULL", family: String, locale: String, known: String = "false",
    where condition: String
) -> String {
    """
    SELECT \(ClaimedTimeline.columns()), a.name AS app, k.name AS kind, t.listed_lane, t.last_decision, t.stored_at,
           \(widget) AS widget, \(known) AS known, CASE WHEN \(known) THEN NULL ELSE t.content END AS content,
           d.definition ->> 'widgetURL' AS widget_url, p.entry AS snapshot, p.stored_at AS snapshot_at,
           h.content AS placeholder, h.fetched_at AS placeholder_at,
           CASE WHEN t.content IS NULL THEN (d.definition -> 'placeholder')::text END AS manifest
    FROM \(source)
    JOIN kind_definition d ON d.kind_id = k.id
    LEFT JOIN snapshot p ON t.content IS NULL AND p.timeline_id = t.id
    LEFT JOIN placeholder h ON t.content IS NULL AND h.kind_id = t.kind_id AND h.family = coalesce(t.family, \(family))
        AND h.locale = coalesce(t.locale, \(locale)) AND h.time_zone = coalesce(t.time_zone, '')
        AND h.content IS NOT NULL
    WHERE a.name = $1::text AND k.retired_at IS NULL AND \(condition)
    """
}

private let readTimelineSQL = reading(
    "timeline t JOIN kind k ON k.id = t.kind_id JOIN app a ON a.id = k.app_id", family: "NULL::int2",
    locale: "NULL::text", where: "t.identity = $2::uuid")

private let pollTimelineSQL = reading(
    "app a JOIN widget w ON w.app_id = a.id JOIN kind k ON k.id = w.kind_id LEFT JOIN timeline t ON t.id = w.timeline_id",
    widget: "w.id", family: "w.family", locale: "w.locale",
    known: "(t.content_revision > 0 AND ($4::bool OR t.hash = ANY ($5::uuid[])))",
    where: "w.id = ANY ($2::text[]) AND ($3::text IS NULL OR w.user_id = $3::text)")

private let readWidgetTimelineSQL = reading(
    "app a JOIN widget w ON w.app_id = a.id JOIN timeline t ON t.id = w.timeline_id JOIN kind k ON k.id = t.kind_id",
    family: "w.family", locale: "w.locale",
    where: "w.id = $2::text AND ($3::text IS NULL OR w.user_id = $3::text)")

/// Result of polling a widget's timeline.
package enum PolledTimeline: Sendable {
    /// The widget is removed.
    case removed
    /// The reader has the stored content.
    case known(ClaimedTimeline)
    /// Content that the reader does not have, or the fallback content.
    case timeline(TimelineDetail)
}

extension PostgresStatement where Self == Statements {
    /// One timeline by its id.
    package static func readTimeline(id: TimelineID, app: String) -> PostgresQuery<TimelineDetail> {
        PostgresQuery(readTimelineSQL, app, id) { row in try TimelineDetail(row) }
    }

    /// The timelines that widgets show, in one snapshot, without the content that the reader has. No row for unknown
    /// widgets.
    ///
    /// - Parameters:
    ///   - user: owner of the widgets; nil for any.
    ///   - known: hashes of content that the reader has.
    ///   - knowsAny: whether the reader wants no content.
    package static func pollTimeline(
        app: String, widgets: [String], user: String?, known: [ContentHash], knowsAny: Bool
    ) -> PostgresQuery<(widget: String, timeline: PolledTimeline)> {
        PostgresQuery(pollTimelineSQL, app, PostgresArray(widgets), user, knowsAny, PostgresArray(known)) { row in
            let widget: String = try row.value("widget")
            guard try row.optional("row", as: Int64.self) != nil else { return (widget, .removed) }
            guard try row.value("known") else { return (widget, .timeline(try TimelineDetail(row))) }
            return (widget, .known(try ClaimedTimeline(row)))
        }
    }

    /// The timeline that a widget shows; no row for a removed widget.
    ///
    /// - Parameter user: owner of the widget; nil for any.
    package static func readWidgetTimeline(app: String, widget: String, user: String? = nil) -> PostgresQuery<
        TimelineDetail
    > {
        PostgresQuery(readWidgetTimelineSQL, app, widget, user) { row in try TimelineDetail(row) }
    }
}

package struct DeviceTimeline: Hashable, Sendable {
    package let widget: String
    package let kind: String
    package let user: String
    package let timelineID: TimelineID
    package let isStale: Bool
    package let hash: ContentHash?
    package let revision: Int64?
}

private let deviceTimelinesSQL = """
    SELECT w.id AS widget, k.name AS kind, w.user_id, t.identity, \(RowFormula.isStale) AS stale,
           CASE WHEN t.content_revision > 0 THEN t.hash END AS hash, nullif(t.content_revision, 0) AS revision
    FROM app a
    JOIN widget w ON w.app_id = a.id
    JOIN kind k ON k.id = w.kind_id
    JOIN timeline t ON t.id = w.timeline_id
    WHERE a.name = $1::text AND w.device_id = $2::text AND w.timeline_id IS NOT NULL
        AND ($3::text IS NULL OR w.user_id = $3::text) AND k.retired_at IS NULL
    ORDER BY w.id LIMIT $4::int8
    """

extension PostgresStatement where Self == Statements {
    /// The timelines that the widgets of a device show, in the order of the widgets' ids.
    ///
    /// - Parameter user: only this user's widgets.
    package static func deviceTimelines(app: String, device: String, user: String?, limit: Int) -> PostgresQuery<
        DeviceTimeline
    > {
        PostgresQuery(deviceTimelinesSQL, app, device, user, limit) { row in
            try DeviceTimeline(
                widget: row.value("widget"), kind: row.value("kind"), user: row.value("user_id"),
                timelineID: row.value("identity"), isStale: row.value("stale"), hash: row.optional("hash"),
                revision: row.optional("revision"))
        }
    }
}
