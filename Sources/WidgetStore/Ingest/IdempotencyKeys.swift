package import PostgresClient
package import WidgetModel

private let claimIdempotencyKeySQL = """
    INSERT INTO idempotency_key AS k (app_id, key, request)
    SELECT a.id, $2::uuid, $3::uuid FROM app a WHERE a.name = $1::text
    ON CONFLICT (app_id, key) DO UPDATE SET request = k.request
    RETURNING k.request
    """

private let deleteOldIdempotencyKeysSQL = """
    \(OldRows.deleted(from: "idempotency_key"))
    SELECT \(OldRows.answer)
    """

extension PostgresStatement where Self == Statements {
    /// Records the request of an `Idempotency-Key` and returns the one for which it was first used.
    package static func claimIdempotencyKey(app: String, key: ContentHash, request: ContentHash)
        -> PostgresQuery<ContentHash>
    {
        PostgresQuery(claimIdempotencyKeySQL, app, key, request) { row in try row.value("request") }
    }

    /// Age of the oldest key.
    package static func oldestIdempotencyKey() -> PostgresQuery<Duration> {
        OldRows.oldest("k.recorded_at", in: "idempotency_key k", by: "k.seq")
    }

    /// Deletes the keys that are old or exceed an app's limit in the chunk behind a place.
    package static func deleteOldIdempotencyKeys(
        olderThan age: Duration, limits: [RowLimit] = [], after place: Int64 = 0, limit: Int,
        function: String = #function
    ) -> PostgresQuery<DeletedChunk> {
        OldRows.query(
            deleteOldIdempotencyKeysSQL, olderThan: age, limits: limits, after: place, limit: limit, function: function)
    }
}
