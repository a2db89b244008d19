package import PostgresClient
package import WidgetModel

/// Requests for a widget, its user or its device that could not be applied: dead letters with their key, of the same app.
///
/// Reads only the latest dead letters, so that its cost does not depend on their number.
package struct RefusedRequests: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let topic: String
        package let partition: Int32
        package let offset: Int64
        /// Class of the error, and what was wrong.
        package let code: String
        package let error: String
        package let receivedAt: Timestamp
    }

    package static let sql = """
        SELECT d.topic, d.partition, d."offset", d.code, d.error, d.received_at
        FROM (SELECT * FROM dead_letter ORDER BY id DESC LIMIT 1000) d
        WHERE d.app = $1::text AND d.key = ANY ($2::bytea[])
          AND d.replayed_at IS NULL AND d.cause <> 'diverted'
        ORDER BY d.id DESC
        LIMIT 3
        """

    package var parameters = PostgresParameters()

    /// - Parameter keys: as producers key their events: the widget's, the user's and the device's id.
    package init(app: String, keys: [String]) {
        parameters.append(app)
        parameters.append(array: keys.map { Array($0.utf8) })
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            topic: try row.value("topic"), partition: try row.value("partition"), offset: try row.value("offset"),
            code: try row.value("code"), error: try row.value("error"), receivedAt: try row.value("received_at"))
    }
}
