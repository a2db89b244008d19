package import PostgresClient
package import WidgetModel

private let claimIdempotencyKeySQL = """
    INSERT INTO idempotency_key AS k (app_id, key, request)
    SELECT a.id, $2::uuid, $3::uuid FROM app a WHERE a.name = $1::text
    ON CONFLICT (app_id, key) DO UPDATE SET request = k.request
    RETURNING k.request
    """

private let deleteOldIdempotencyKeysSQL = """
    DELETE FROM idempotency_key k WHERE k.seq IN (\(RowsToForget.sql("idempotency_key")))
    """

extension PostgresStatement where Self == Statements {
    /// Records the request of an `Idempotency-Key` and returns the one for which it was first used.
    package static func claimIdempotencyKey(app: String, key: ContentHash, request: ContentHash)
        -> PostgresQuery<ContentHash>
    {
        PostgresQuery(claimIdempotencyKeySQL, app, key, request) { row in try row.value("request") }
    }

    /// Deletes a chunk of the keys that are old or exceed an app's limit.
    package static func deleteOldIdempotencyKeys(olderThan age: Duration, keeping count: Int, limit: Int)
        -> PostgresQuery<Void>
    {
        PostgresQuery(deleteOldIdempotencyKeysSQL, age.wholeMilliseconds, count, limit)
    }
}
