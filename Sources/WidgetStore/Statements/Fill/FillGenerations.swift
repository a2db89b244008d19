package import PostgresClient
package import WidgetModel

/// The generations of every kind and its app, and the database's time.
package struct FillGenerations: PostgresStatement {
    package struct Row: Sendable {
        package let kindID: Int32
        package let kind: Int64
        package let app: Int64
        package let now: Timestamp
    }

    package static let sql = "SELECT k.id, k.generation, a.generation, now() FROM kind k JOIN app a ON a.id = k.app_id"

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            kindID: try row.value(0), kind: try row.value(1), app: try row.value(2),
            now: Timestamp(try row.value(3, as: PostgresTimestamp.self)))
    }
}
