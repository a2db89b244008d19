package import PostgresClient
import WidgetModel

private let input = InputColumns<EveryoneReload>([
    .init("app_id") { $0.appID }, .init("kind_id") { $0.kindID }, .init("events") { $0.events },
    .init("urgency") { $0.urgency }, .init("cause_topic") { $0.cause.topic },
    .init("cause_partition") { $0.cause.partition }, .init("cause_offset") { $0.cause.offset },
    .init("cause_reason") { $0.reason },
])

private let bumpKindsSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(input.rows("i"))
    ), target AS MATERIALIZED (
        SELECT k.id, sum(i.events)::int8 AS events, max(i.urgency) AS urgency, max(i.ord) AS last
        FROM input i JOIN kind k
            ON k.app_id = i.app_id AND (k.id = i.kind_id OR i.kind_id IS NULL AND k.retired_at IS NULL)
        GROUP BY k.id
    ), locked AS MATERIALIZED (
        SELECT k.id FROM kind k WHERE k.id IN (SELECT id FROM target) ORDER BY k.id FOR NO KEY UPDATE
    ), bumped AS (
        UPDATE kind k
        SET generation = k.generation + l.events,
            free_generation = CASE WHEN l.urgency > 0 THEN k.generation + l.events ELSE k.free_generation END,
            forced_generation = CASE WHEN l.urgency > 1 THEN k.generation + l.events ELSE k.forced_generation END,
            cause_topic = i.cause_topic, cause_partition = i.cause_partition, cause_offset = i.cause_offset,
            cause_reason = i.cause_reason, bumped_at = now()
        FROM locked o JOIN target l ON l.id = o.id JOIN input i ON i.ord = l.last
        WHERE k.id = o.id
        RETURNING k.id, k.app_id, k.generation
    ), swept AS (
        INSERT INTO sweep AS s (app_id, kind_id, generation)
        SELECT app_id, id, generation FROM bumped ORDER BY id
        ON CONFLICT (kind_id) WHERE generation IS NOT NULL DO UPDATE
            SET generation = excluded.generation, until = s.cursor, wrapped = false
    )
    SELECT count(*) AS bumped FROM bumped
    """

extension PostgresStatement where Self == Statements {
    /// Increments the generations of kinds, in id order, and records a sweep of each, whatever the number of timelines.
    /// An increment during a walk raises the walk's generation, and the walk goes round to that place. Returns the
    /// number of kinds.
    ///
    /// - Parameter bumps: in the order of the log.
    package static func bumpKinds(_ bumps: [EveryoneReload]) -> PostgresQuery<Int64> {
        PostgresQuery(bumpKindsSQL, binding: input.parameters(bumps)) { row in try row.value("bumped") }
    }
}
