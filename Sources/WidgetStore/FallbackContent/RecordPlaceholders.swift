package import PostgresClient

/// Asks for the placeholders of environments that devices have moved into: due now, unless they were fetched within the
/// last hour, are due already, or wait for a back-off.
///
/// Devices name environments as they like: a kind gets no more than ``limit`` placeholders, beyond which the manifest's
/// holds. Rows that need nothing are not locked, for every device of a language comes by the same ones.
package struct RecordPlaceholders: PostgresStatement {
    /// About how many a kind may have.
    package static let limit = 2_000

    package static let sql = """
        WITH input AS MATERIALIZED (
            SELECT DISTINCT i.kind_id, i.family, i.locale COLLATE "C" AS locale, i.time_zone COLLATE "C" AS time_zone
            FROM unnest($1::int4[], $2::int2[], $3::text[], $4::text[]) AS i (kind_id, family, locale, time_zone)
        ), wanted AS MATERIALIZED (
            SELECT i.kind_id, i.family, i.locale, i.time_zone, p.kind_id IS NULL AS is_new,
                   row_number() OVER (PARTITION BY i.kind_id, p.kind_id IS NULL
                                      ORDER BY i.family, i.locale, i.time_zone) AS place
            FROM input i
            LEFT JOIN placeholder p ON p.kind_id = i.kind_id AND p.family = i.family AND p.locale = i.locale
                AND p.time_zone = i.time_zone
            WHERE p.kind_id IS NULL OR (p.due_at = 'infinity' AND p.fetched_at < now() - interval '1 hour')
        ), room AS (
            SELECT n.kind_id, \(limit) - (
                SELECT count(*) FROM (SELECT 1 FROM placeholder p WHERE p.kind_id = n.kind_id LIMIT \(limit)) held
            ) AS places
            FROM (SELECT DISTINCT kind_id FROM wanted WHERE is_new) n
        )
        INSERT INTO placeholder AS p (kind_id, family, locale, time_zone)
        SELECT w.kind_id, w.family, w.locale, w.time_zone
        FROM wanted w LEFT JOIN room r ON r.kind_id = w.kind_id
        WHERE NOT w.is_new OR w.place <= r.places
        ORDER BY w.kind_id, w.family, w.locale, w.time_zone
        ON CONFLICT (kind_id, family, locale, time_zone) DO UPDATE SET due_at = now(), asked_at = now()
            WHERE p.due_at = 'infinity' AND p.fetched_at < now() - interval '1 hour'
        """

    let keys: [PlaceholderKey]

    package init(_ keys: [PlaceholderKey]) {
        self.keys = keys
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(keys: keys)
    }
}
