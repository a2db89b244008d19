package import PostgresClient

private let input = InputColumns<PlaceholderKey>(PlaceholderKey.input { $0 })

private let recordPlaceholdersSQL = """
    WITH input AS MATERIALIZED (
        SELECT DISTINCT i.kind_id, i.family, i.locale COLLATE "C" AS locale, i.time_zone COLLATE "C" AS time_zone
        FROM \(input.rows("i"))
    ), wanted AS MATERIALIZED (
        SELECT \(PlaceholderKey.columns(of: "i")), p.kind_id IS NULL AS is_new,
               row_number() OVER (PARTITION BY i.kind_id, p.kind_id IS NULL
                                  ORDER BY i.family, i.locale, i.time_zone) AS place
        FROM input i
        LEFT JOIN placeholder p ON \(PlaceholderKey.matches("p", "i"))
        WHERE p.kind_id IS NULL OR (p.due_at = 'infinity' AND p.fetched_at < now() - interval '1 hour')
    ), room AS (
        SELECT n.kind_id, \(PlaceholderKey.limit) - (
            SELECT count(*) FROM (SELECT 1 FROM placeholder p WHERE p.kind_id = n.kind_id LIMIT \(PlaceholderKey.limit)) held
        ) AS places
        FROM (SELECT DISTINCT kind_id FROM wanted WHERE is_new) n
    )
    INSERT INTO placeholder AS p (kind_id, family, locale, time_zone)
    SELECT \(PlaceholderKey.columns(of: "w"))
    FROM wanted w LEFT JOIN room r ON r.kind_id = w.kind_id
    WHERE NOT w.is_new OR w.place <= r.places
    ORDER BY \(PlaceholderKey.columns(of: "w"))
    ON CONFLICT (kind_id, family, locale, time_zone) DO UPDATE SET due_at = now(), asked_at = now()
        WHERE p.due_at = 'infinity' AND p.fetched_at < now() - interval '1 hour'
    """

extension PostgresStatement where Self == Statements {
    /// Asks for the placeholders of environments that devices have moved into: due now, unless they were fetched within the
    /// last hour, are due already, or wait for a back-off.
    ///
    /// Devices name environments as they like: a kind gets no more than ``PlaceholderKey/limit`` placeholders, beyond which the manifest's
    /// holds. Rows that need nothing are not locked, for every device of a language comes by the same ones.
    package static func recordPlaceholders(_ keys: [PlaceholderKey]) -> PostgresQuery<Void> {
        PostgresQuery(recordPlaceholdersSQL, binding: input.parameters(keys))
    }
}
