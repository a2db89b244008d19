package import PostgresClient
package import WidgetModel

/// Folded reloads of everyone, for one kind or for all kinds of an app.
package struct EveryoneReload: Hashable, Sendable {
    package var appID: Int32
    /// Id of the kind; nil for all kinds of the app.
    package var kindID: Int32?
    /// Canonical JSON object that the configuration must contain. A sweep marks the matching timelines in paced chunks.
    /// Nil matches any configuration and increments a generation.
    package var matching: String?
    /// Number of folded events.
    package var events: Int64
    package var urgency: RequestUrgency
    /// The latest event and its reason.
    package var cause: EventPosition
    package var reason: ReloadReason

    package init(
        appID: Int32, kindID: Int32?, matching: String? = nil, events: Int64, urgency: RequestUrgency,
        cause: EventPosition, reason: ReloadReason
    ) {
        (self.appID, self.kindID, self.matching, self.events) = (appID, kindID, matching, events)
        (self.urgency, self.cause, self.reason) = (urgency, cause, reason)
    }
}

/// Conflict target of equal waiting sweeps.
let waitingSweeps = """
    (app_id, coalesce(kind_id, 0), audience, coalesce(audience_id, ''), md5(coalesce(matching, ''))) \
    WHERE generation IS NULL AND NOT started
    """

/// Folds `excluded` into a waiting sweep `s`.
let mergingSweeps = """
    events = s.events + excluded.events, urgency = greatest(s.urgency, excluded.urgency),
    cause_topic = excluded.cause_topic, cause_partition = excluded.cause_partition,
    cause_offset = excluded.cause_offset, cause_reason = excluded.cause_reason
    """

private let input = InputColumns<EveryoneReload>([
    .init("app_id") { $0.appID }, .init("kind_id") { $0.kindID }, .init("matching") { $0.matching },
    .init("events") { $0.events }, .init("urgency") { $0.urgency },
    .init("cause_topic") { $0.cause.topic },
    .init("cause_partition") { $0.cause.partition }, .init("cause_offset") { $0.cause.offset },
    .init("cause_reason") { $0.reason },
])

private let recordSweepSQL = """
    WITH input AS MATERIALIZED (
        SELECT k.app_id, k.id AS kind_id, i.matching, sum(i.events)::int8 AS events, max(i.urgency) AS urgency,
               max(i.ord) AS last
        FROM \(input.rows("i")) JOIN kind k
            ON k.app_id = i.app_id AND (k.id = i.kind_id OR i.kind_id IS NULL AND k.retired_at IS NULL)
        GROUP BY k.app_id, k.id, i.matching
    )
    INSERT INTO sweep AS s (app_id, kind_id, matching, events, urgency, cause_topic, cause_partition, cause_offset,
                            cause_reason)
    SELECT n.app_id, n.kind_id, n.matching, n.events, n.urgency, i.cause_topic, i.cause_partition, i.cause_offset,
           i.cause_reason
    FROM input n JOIN \(input.rows("i")) ON i.ord = n.last
    ORDER BY n.app_id, n.kind_id, n.matching
    ON CONFLICT \(waitingSweeps) DO UPDATE SET \(mergingSweeps)
    """

extension PostgresStatement where Self == Statements {
    /// Records sweeps of matching timelines. Equal sweeps that have not started absorb the events.
    ///
    /// - Parameter sweeps: in the order of the log.
    package static func recordSweep(_ sweeps: [EveryoneReload]) -> PostgresQuery<Void> {
        PostgresQuery(recordSweepSQL, binding: input.parameters(sweeps))
    }
}
