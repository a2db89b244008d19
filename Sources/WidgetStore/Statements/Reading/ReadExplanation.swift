package import PostgresClient
import WidgetModel

/// A widget with all that explains its timeline, in one snapshot; a removed widget too. Only of the app that is named.
package struct ReadExplanation: PostgresStatement {
    package static let sql = """
        SELECT \(Column.allCases.map(\.sql).joined(separator: ", "))
        FROM app a
        JOIN widget w ON w.app_id = a.id
        JOIN kind k ON k.id = w.kind_id AND k.app_id = a.id
        JOIN kind_definition d ON d.kind_id = k.id
        LEFT JOIN timeline_state s ON s.timeline_id = w.timeline_id AND s.kind_id = k.id
        LEFT JOIN timeline t ON t.id = s.timeline_id
        LEFT JOIN timeline_content c ON c.timeline_id = s.timeline_id
        LEFT JOIN snapshot p ON p.timeline_id = s.timeline_id
        LEFT JOIN placeholder h ON h.kind_id = k.id AND h.family = w.family AND h.locale = w.locale
            AND h.time_zone = coalesce(t.time_zone, '') AND h.content IS NOT NULL
        LEFT JOIN LATERAL (
        \(ViewAggregate.sql(timeline: "s.timeline_id"))
        ) v ON s.timeline_id IS NOT NULL
        WHERE a.name = $1::text AND w.id = $2::text
        """

    let app: String
    let widget: String

    package init(app: String, widget: String) {
        self.app = app
        self.widget = widget
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(widget)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> WidgetExplanation {
        let app: String = try row.value(.app)
        let definition: KindDefinition
        do {
            definition = try KindDefinition(
                json: JSONValue.parse(Array(try row.value(.definition, as: String.self).utf8)))
        } catch let error as PostgresError {
            throw error
        } catch {
            throw PostgresError(.decoding, "stored definition of a kind of \(app): \(error)")
        }
        let hasTimeline = try row.optional(.timeline, as: PostgresUUID.self) != nil
        return WidgetExplanation(
            widget: try row.value(.widget), app: app, kind: definition, isDeveloperMode: try row.value(.developerMode),
            family: try row.family(Column.family.rawValue), user: try row.value(.user), device: try row.value(.device),
            placedAt: try row.time(.placedAt), lastViewedAt: try row.optionalTime(.lastViewedAt),
            viewsADay: try row.optional(.widgetViews) ?? 0,
            timelineID: try row.optional(.timelineID, as: PostgresUUID.self).map { TimelineID($0) },
            timeline: hasTimeline ? try timeline(row) : nil, readAt: try row.time(.now))
    }

    private static func timeline(
        _ row: borrowing PostgresRow
    ) throws(PostgresError) -> WidgetExplanation.Timeline {
        var content: WidgetExplanation.Content?
        if let revision = try row.optional(.revision, as: Int64.self) {
            content = WidgetExplanation.Content(
                revision: revision, storedAt: try row.time(.storedAt),
                bytes: Int(try row.value(.contentBytes, as: Int32.self)))
        }
        return WidgetExplanation.Timeline(
            facts: try facts(row, isStored: content != nil), claim: try row.value(.claim),
            widgets: Int(try row.value(.widgets, as: Int64.self)), content: content, causes: try causes(row))
    }

    private static func facts(
        _ row: borrowing PostgresRow, isStored: Bool
    ) throws(PostgresError) -> ReloadFacts {
        var facts = ReloadFacts(readAt: try row.time(.now))
        facts.targeted = ReloadFacts.Generation(
            current: try row.value(.requested), rendered: try row.value(.rendered), free: try row.value(.freeRequested))
        facts.kind = ReloadFacts.Generation(
            current: try row.value(.kindGeneration), rendered: try row.value(.renderedKindGeneration),
            free: try row.value(.kindFreeGeneration))
        facts.app = ReloadFacts.Generation(
            current: try row.value(.appGeneration), rendered: try row.value(.renderedAppGeneration),
            free: try row.value(.appFreeGeneration))
        facts.swept = try row.value(.swept)
        facts.cancelled = try row.value(.cancelled)
        facts.isLeased = try row.value(.leased)
        facts.isOrphaned = try row.value(.orphaned)
        facts.lane = try row.lane(Column.lane.rawValue)
        facts.dueAt = try row.time(.dueAt)
        facts.retryAt = try row.time(.retryAt)
        facts.eligibleAt = try row.time(.eligibleAt)
        facts.freeAt = try row.time(.freeAt)
        facts.policyAt = try row.time(.policyAt)
        facts.renderedAt = try row.optionalTime(.renderedAt)
        facts.requestedAt = try row.optionalTime(.requestedAt)
        facts.decision = Decision(rawValue: try row.value(.decision)) ?? .none
        facts.rule = ReloadRule(rawValue: try row.value(.rule)) ?? .none
        facts.decidedAt = try row.optionalTime(.decidedAt)
        facts.fetchTime = try row.optional(.fetchMilliseconds, as: Int32.self).map { .milliseconds(Int64($0)) }
        facts.attempts = Int(try row.value(.attempts, as: Int16.self))
        let budget = try row.optional(.budget, as: PostgresBytes.self)?.bytes
        // What cannot be read is a full bucket, as the workers take it.
        facts.ledger = BudgetLedger(stored: budget) ?? BudgetLedger()
        facts.views = ViewStatistics(
            viewsADay: try row.optional(.timelineViews) ?? 0, lastActive: try row.optionalTime(.lastActive),
            lastPlaced: try row.optionalTime(.lastPlaced))
        facts.viewClass = ViewClass(rawValue: try row.value(.viewClass))
        facts.isStored = isStored
        facts.isPublished = try row.value(.published)
        facts.snapshotAt = try row.optionalTime(.snapshotAt)
        facts.placeholderAt = try row.optionalTime(.placeholderAt)
        facts.kindPausedAt = try row.optionalTime(.kindPausedAt)
        facts.appPausedAt = try row.optionalTime(.appPausedAt)
        facts.isRetired = try row.optionalTime(.retiredAt) != nil
        return facts
    }

    private static func causes(_ row: borrowing PostgresRow) throws(PostgresError) -> [ExplainedCause] {
        let columns: [(ExplainedCause.Role, [Column])] = [
            (.request, [.causeTopic, .causePartition, .causeOffset, .causeReason, .requestedAt]),
            (.decision, [.decisionTopic, .decisionPartition, .decisionOffset, .decisionReason, .decidedAt]),
            (.kind, [.kindCauseTopic, .kindCausePartition, .kindCauseOffset, .kindCauseReason, .kindBumpedAt]),
            (.app, [.appCauseTopic, .appCausePartition, .appCauseOffset, .appCauseReason, .appBumpedAt]),
        ]
        var causes: [ExplainedCause] = []
        for (role, columns) in columns {
            var position: EventPosition?
            if let topic = try row.optional(columns[0], as: Int16.self),
                let partition = try row.optional(columns[1], as: Int32.self),
                let offset = try row.optional(columns[2], as: Int64.self)
            {
                position = EventPosition(topic: topic, partition: partition, offset: offset)
            }
            let reason = try row.optional(columns[3], as: Int16.self).flatMap { ReloadReason(rawValue: $0) }
            guard position != nil || reason != nil else { continue }
            causes.append(
                ExplainedCause(
                    role: role, position: position, reason: reason, appliedAt: try row.optionalTime(columns[4])))
        }
        return causes
    }
}

extension ReadExplanation {
    /// The columns in the order of the result; each stands once, with where it comes from.
    fileprivate enum Column: Int, CaseIterable {
        case app, developerMode, appPausedAt, appGeneration, appFreeGeneration
        case appCauseTopic, appCausePartition, appCauseOffset, appCauseReason, appBumpedAt
        case definition, retiredAt, kindPausedAt, kindGeneration, kindFreeGeneration, cancelled
        case kindCauseTopic, kindCausePartition, kindCauseOffset, kindCauseReason, kindBumpedAt
        case widget, family, user, device, placedAt, lastViewedAt, widgetViews, timelineID
        case timeline, requested, rendered, freeRequested, renderedKindGeneration, renderedAppGeneration, swept, claim
        case leased, orphaned, lane, dueAt, retryAt, eligibleAt, freeAt, policyAt, renderedAt, requestedAt
        case causeTopic, causePartition, causeOffset, causeReason
        case decision, rule, decidedAt, decisionTopic, decisionPartition, decisionOffset, decisionReason
        case fetchMilliseconds, attempts, budget, viewClass
        case published, revision, storedAt, contentBytes, snapshotAt, placeholderAt
        case widgets, timelineViews, lastActive, lastPlaced
        case now

        var sql: String {
            switch self {
            case .app: "a.name"
            case .developerMode: "a.developer_mode"
            case .appPausedAt: "a.paused_at"
            case .appGeneration: "a.generation"
            case .appFreeGeneration: "a.free_generation"
            case .appCauseTopic: "a.cause_topic"
            case .appCausePartition: "a.cause_partition"
            case .appCauseOffset: "a.cause_offset"
            case .appCauseReason: "a.cause_reason"
            case .appBumpedAt: "a.bumped_at"
            case .definition: "d.definition::text"
            case .retiredAt: "k.retired_at"
            case .kindPausedAt: "k.paused_at"
            case .kindGeneration: "k.generation"
            case .kindFreeGeneration: "k.free_generation"
            case .cancelled: "k.cancelled_generation"
            case .kindCauseTopic: "k.cause_topic"
            case .kindCausePartition: "k.cause_partition"
            case .kindCauseOffset: "k.cause_offset"
            case .kindCauseReason: "k.cause_reason"
            case .kindBumpedAt: "k.bumped_at"
            case .widget: "w.id"
            case .family: "w.family"
            case .user: "w.user_id"
            case .device: "w.device_id"
            case .placedAt: "w.placed_at"
            case .lastViewedAt: "w.last_viewed_at"
            case .widgetViews: "(\(ViewAggregate.decayed("w"))) * \(ViewStatistics.viewsPerHour)"
            case .timelineID: "w.timeline_id"
            case .timeline: "s.timeline_id"
            case .requested: "s.requested"
            case .rendered: "s.rendered"
            case .freeRequested: "s.free_requested"
            case .renderedKindGeneration: "s.rendered_kind_generation"
            case .renderedAppGeneration: "s.rendered_app_generation"
            case .swept: "s.swept_generation"
            case .claim: "s.claim"
            case .leased: "s.leased"
            case .orphaned: "s.orphaned"
            case .lane: "s.lane"
            case .dueAt: "s.due_at"
            case .retryAt: "s.retry_at"
            case .eligibleAt: "s.eligible_at"
            case .freeAt: "s.free_at"
            case .policyAt: "s.policy_at"
            case .renderedAt: "s.rendered_at"
            case .requestedAt: "s.requested_at"
            case .causeTopic: "s.cause_topic"
            case .causePartition: "s.cause_partition"
            case .causeOffset: "s.cause_offset"
            case .causeReason: "s.cause_reason"
            case .decision: "s.last_decision"
            case .rule: "s.decision_rule"
            case .decidedAt: "s.decided_at"
            case .decisionTopic: "s.decision_topic"
            case .decisionPartition: "s.decision_partition"
            case .decisionOffset: "s.decision_offset"
            case .decisionReason: "s.decision_reason"
            case .fetchMilliseconds: "s.fetch_milliseconds"
            case .attempts: "s.attempts"
            case .budget: "s.budget"
            case .viewClass: "s.view_class"
            case .published: "s.published_hash IS NOT NULL"
            case .snapshotAt: "p.stored_at"
            case .placeholderAt: "h.fetched_at"
            case .revision: "c.revision"
            case .storedAt: "c.stored_at"
            case .contentBytes: "octet_length(c.content)"
            case .widgets: "v.widgets"
            case .timelineViews: "v.views"
            case .lastActive: "v.last_active"
            case .lastPlaced: "v.last_placed"
            case .now: "now()"
            }
        }
    }
}

extension PostgresRow {
    fileprivate func value<Value: PostgresValue>(
        _ column: ReadExplanation.Column, as type: Value.Type = Value.self
    ) throws(PostgresError) -> Value {
        try value(column.rawValue, as: type)
    }

    fileprivate func optional<Value: PostgresValue>(
        _ column: ReadExplanation.Column, as type: Value.Type = Value.self
    ) throws(PostgresError) -> Value? {
        try optional(column.rawValue, as: type)
    }

    fileprivate func time(_ column: ReadExplanation.Column) throws(PostgresError) -> Timestamp {
        Timestamp(try value(column.rawValue, as: PostgresTimestamp.self))
    }

    fileprivate func optionalTime(_ column: ReadExplanation.Column) throws(PostgresError) -> Timestamp? {
        try optional(column.rawValue, as: PostgresTimestamp.self).map { Timestamp($0) }
    }
}
