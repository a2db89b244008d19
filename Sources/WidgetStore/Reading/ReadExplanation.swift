// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// Most widgets of the timeline that are counted.
private let widgets = 65

/// Most sweeps of the kind that are examined.
private let sweeps = 1_000

private func timeline(
    _ claimed: ClaimedTimeline, _ row: borrowing PostgresRow
) throws(PostgresError) -> WidgetExplanation.Timeline {
    var content: (revision: Int64, storedAt: Timestamp, bytes: Int)?
    if let bytes = try row.optional("content_bytes", as: Int32.self) {
        content = try (claimed.contentRevision, row.value("stored_at"), Int(bytes))
    }
    return try WidgetExplanation.Timeline(
        facts: facts(claimed, row, isStored: content != nil), widgets: row.value("widgets"), viewedAt: claimed.viewedAt,
        content: content, causes: causes(claimed, row),
        history: row.optional("history").map { DecisionRecord.history(stored: $0) } ?? [])
}

private func facts(
    _ claimed: ClaimedTimeline, _ row: borrowing PostgresRow, isStored: Bool
) throws(PostgresError) -> ReloadFacts {
    var facts = ReloadFacts(readAt: claimed.readAt)
    facts.timeline = claimed.state
    facts.kind = claimed.kind
    facts.lane = try row.lane("listed_lane")
    facts.listedAt = claimed.listedAt
    if let token = try row.optional("list_lease", as: Int64.self) {
        facts.lease = (token: token, endsAt: try row.value("list_ready_at"))
    }
    facts.renderedAt = claimed.renderedAt
    facts.requestedAt = claimed.requestedAt
    facts.decision = Decision(rawValue: try row.value("last_decision")) ?? .none
    facts.rule = ReloadRule(rawValue: try row.value("decision_rule")) ?? .none
    facts.decidedAt = try row.optional("decided_at")
    facts.fetchTime = try row.optional("fetch_milliseconds", as: Int32.self).map { .milliseconds(Int64($0)) }
    facts.attempts = Int(claimed.attempts)
    facts.ledger = claimed.ledger
    facts.views = claimed.views
    facts.timeZone = try row.value("widget_time_zone")
    facts.isStored = isStored
    facts.snapshotAt = try row.optional("snapshot_at")
    facts.placeholderAt = try row.optional("placeholder_at")
    facts.kindPause = try row.kindPause()
    facts.appPause = try row.appPause()
    facts.cancellation = try row.operatorAction(at: "cancelled_at", by: "cancelled_by", reason: "cancel_reason")
    facts.sweepsAhead = try row.optional("sweep_events")
    facts.isRetired = try row.optional("retired_at", as: Timestamp.self) != nil
    facts.provider = try row.optional("provider")
    if try row.optional("outage_since", as: Timestamp.self) != nil {
        facts.outage = try ProviderOutage(of: row.value("provider"), row)
    }
    return facts
}

private func causes(
    _ claimed: ClaimedTimeline, _ row: borrowing PostgresRow
) throws(PostgresError) -> [ExplainedCause] {
    let causes = [
        try ExplainedCause(
            role: .request,
            position: row.cause(topic: "cause_topic", partition: "cause_partition", offset: "cause_offset"),
            reason: row.reason("cause_reason"), appliedAt: claimed.requestedAt),
        try ExplainedCause(
            role: .decision,
            position: row.cause(topic: "decision_topic", partition: "decision_partition", offset: "decision_offset"),
            reason: row.reason("decision_reason"), appliedAt: row.optional("decided_at")),
        try ExplainedCause(
            role: .kind, position: row.cause(topic: "kind_topic", partition: "kind_partition", offset: "kind_offset"),
            reason: row.reason("kind_reason"), appliedAt: row.optional("bumped_at")),
    ]
    return causes.filter { $0.position != nil || $0.reason != nil }
}

private let readExplanationSQL = """
    SELECT \(ClaimedTimeline.columns()), a.name AS app, a.developer_mode, \(pauseColumns),
           c.at AS cancelled_at, c.operator AS cancelled_by, c.reason AS cancel_reason,
           k.name AS kind, d.definition::text AS definition, k.retired_at, k.bumped_at,
           w.id AS widget, w.family AS widget_family, w.user_id AS widget_user, w.device_id,
           w.placed_at AS widget_placed_at, w.time_zone AS widget_time_zone, w.timeline_id,
           t.listed_lane, t.last_decision, t.decision_rule, t.decided_at, t.decision_topic, t.decision_partition,
           t.decision_offset, t.decision_reason, t.fetch_milliseconds, t.stored_at, t.history,
           octet_length(t.content) AS content_bytes, p.stored_at AS snapshot_at, h.fetched_at AS placeholder_at,
           l.lease AS list_lease, l.ready_at AS list_ready_at, v.widgets, n.sweep_events,
           coalesce(d.definition->>'providerURL', '') AS provider, b.*
    FROM app a
    JOIN widget w ON w.app_id = a.id
    JOIN kind k ON k.id = w.kind_id AND k.app_id = a.id
    JOIN kind_definition d ON d.kind_id = k.id
    \(pauseJoins)
    LEFT JOIN LATERAL (
        SELECT o.at, o.operator, o.reason FROM operator_action o
        WHERE o.app_id = a.id AND o.kind_id = k.id AND o.action = 'cancel'
        ORDER BY o.at DESC LIMIT 1
    ) c ON k.cancelled_generation > 0
    LEFT JOIN timeline t ON t.id = w.timeline_id AND t.kind_id = k.id
    LEFT JOIN snapshot p ON p.timeline_id = t.id
    LEFT JOIN placeholder h ON h.kind_id = k.id AND h.family = w.family AND h.locale = w.locale
        AND h.time_zone = coalesce(t.time_zone, '') AND h.content IS NOT NULL
    LEFT JOIN LATERAL (
        -- Leases are at most an hour.
        SELECT o.lease, o.ready_at FROM work o
        WHERE o.kind_id = k.id AND o.ready_at <= now() + interval '1 hour' AND o.lease IS NOT NULL
            AND t.id = ANY (o.timelines)
            AND CASE WHEN o.generation IS NULL THEN t.listed_at = o.due_at ELSE t.generation < o.generation END
        ORDER BY o.ready_at DESC LIMIT 1
    ) l ON t.id IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT count(*) AS widgets FROM (SELECT FROM widget o WHERE o.timeline_id = t.id LIMIT \(widgets)) c
    ) v ON t.id IS NOT NULL
    LEFT JOIN LATERAL (
        -- NULL if none of the examined ones matches, and there are more.
        SELECT CASE WHEN count(*) < \(sweeps) OR bool_or(s.matches)
                   THEN coalesce(sum(s.events) FILTER (WHERE s.matches), 0)::int8 END AS sweep_events
        FROM (
            SELECT o.events, o.matching IS NULL OR t.configuration::jsonb @> o.matching::jsonb AS matches FROM sweep o
            WHERE o.app_id = a.id AND coalesce(o.kind_id, 0) IN (k.id, 0) AND o.queue > 0
                AND CASE o.audience WHEN 0 THEN t.id > o.cursor
                        WHEN 1 THEN o.audience_id = w.user_id AND w.id > o.cursor_widget
                        ELSE o.audience_id = w.device_id AND w.id > o.cursor_widget END
            ORDER BY o.id LIMIT \(sweeps)) s
    ) n ON t.id IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT \(outageColumns) FROM \(openBreakers)
        WHERE b.app_id = a.id AND b.provider = d.definition->>'providerURL'
    ) b ON true
    WHERE a.name = $1::text AND w.id = $2::text AND w.device_id <> ''
    """

/// Explanation of a widget's past and next reloads, without content and secrets.
package struct WidgetExplanation: Sendable {
    package let widget: String
    package let app: String
    package let kind: String
    /// The kind's definition, or the reason why this version cannot read it.
    package let definition: Result<KindDefinition, ModelError>
    package let isDeveloperMode: Bool
    /// Nil for a family of a newer version.
    package let family: WidgetFamily?
    package let user: String
    package let device: String
    package let placedAt: Timestamp
    /// Nil, like the timeline, for a removed widget or while the timeline is being replaced.
    package let timelineID: TimelineID?
    package let isRemoved: Bool
    package let timeline: Timeline?
    package let readAt: Timestamp

    package struct Timeline: Sendable {
        package let facts: ReloadFacts
        /// Number of widgets that show it, counted up to 65.
        package let widgets: Int
        /// Last counted view.
        package let viewedAt: Timestamp?
        /// Description of stored content; nil without any.
        package let content: (revision: Int64, storedAt: Timestamp, bytes: Int)?
        /// Known causes of the latest request, decision and reload of everyone.
        package let causes: [ExplainedCause]
        /// The latest ``DecisionRecord/kept`` decisions, latest first.
        package let history: [DecisionRecord]
    }

    /// Reason why this version does not reload the widget, which a newer version has written; nil if it does.
    package var unreadable: String? {
        if case .failure(let error) = definition {
            return "this version cannot read the stored definition of its kind: \(error)"
        }
        return family == nil ? "this version does not know its family" : nil
    }

    /// Nil without a timeline, and for a kind with an unreadable definition.
    package var explanation: Explanation? {
        guard let timeline, let definition = try? definition.get() else { return nil }
        return Explanation(timeline.facts, rules: ReloadRules(definition, developerMode: isDeveloperMode))
    }
}

/// An event that affected a timeline.
package struct ExplainedCause: Hashable, Sendable {
    package enum Role: String, CaseIterable, Sendable {
        /// The latest request to a person, a device or a widget for the timeline.
        case request
        /// The request of the last decision.
        case decision
        /// The latest reload of everyone.
        case kind
    }

    package let role: Role
    /// Position in Kafka; nil for other causes, such as the policy.
    package let position: EventPosition?
    package let reason: ReloadReason?
    /// The database's time of the application.
    package let appliedAt: Timestamp?
}

extension PostgresStatement where Self == Statements {
    /// A widget of an app with the explanation of its timeline, in one snapshot; also a removed widget.
    package static func readExplanation(app: String, widget: String) -> PostgresQuery<WidgetExplanation> {
        PostgresQuery(readExplanationSQL, app, widget) { row in
            let claimed = try row.optional("row", as: Int64.self) == nil ? nil : try ClaimedTimeline(row)
            return try WidgetExplanation(
                widget: row.value("widget"), app: row.value("app"), kind: row.value("kind"),
                definition: row.definition("definition"), isDeveloperMode: row.value("developer_mode"),
                family: row.family("widget_family"),
                user: row.value("widget_user"), device: row.value("device_id"), placedAt: row.value("widget_placed_at"),
                timelineID: claimed?.id, isRemoved: row.optional("timeline_id", as: Int64.self) == nil,
                timeline: claimed.map { claimed throws(PostgresError) in try timeline(claimed, row) },
                readAt: row.value("read_at"))
        }
    }
}

extension PostgresStatement where Self == Statements {
    /// Requests for a widget, its user or its device that became dead letters of the app. Reads only the app's latest
    /// 1,000 letters, without those that wait for the end of a diversion.
    ///
    /// - Parameter keys: keys of producers' events: ids of the widget, the user and the device.
    package static func refusedRequests(app: String, keys: [String]) -> PostgresQuery<DeadLetterSummary> {
        PostgresQuery(
            """
            SELECT \(DeadLetterSummary.columns)
            FROM (
                SELECT * FROM dead_letter WHERE app = $1::text AND cause <> 'diverted' ORDER BY id DESC LIMIT 1000
            ) d
            WHERE d.key = ANY ($2::bytea[]) AND d.replayed_at IS NULL
            ORDER BY d.id DESC
            LIMIT 3
            """, app, PostgresArray(keys.map { Array($0.utf8) })
        ) { row in try DeadLetterSummary(row) }
    }
}
