package import PostgresClient
package import WidgetModel

package struct RefusedRequest: Hashable, Sendable {
    package let topic: String
    package let partition: Int32
    package let offset: Int64
    /// Class and description of the error.
    package let code: String
    package let error: String
    package let receivedAt: Timestamp
}

extension PostgresStatement where Self == Statements {
    /// Requests for a widget, its user or its device that became dead letters of the app. Reads only the app's latest 1,000
    /// letters, without those that wait for the end of a diversion.
    ///
    /// - Parameter keys: keys of producers' events: ids of the widget, the user and the device.
    package static func refusedRequests(app: String, keys: [String]) -> PostgresQuery<RefusedRequest> {
        PostgresQuery(
            """
            SELECT d.topic, d.partition, d."offset", d.code, d.error, d.received_at
            FROM (
                SELECT * FROM dead_letter WHERE app = $1::text AND cause <> 'diverted' ORDER BY id DESC LIMIT 1000
            ) d
            WHERE d.key = ANY ($2::bytea[]) AND d.replayed_at IS NULL
            ORDER BY d.id DESC
            LIMIT 3
            """, app, PostgresArray(keys.map { Array($0.utf8) })
        ) { row in
            try RefusedRequest(
                topic: row.value("topic"), partition: row.value("partition"), offset: row.value("offset"),
                code: row.value("code"), error: row.value("error"), receivedAt: row.value("received_at"))
        }
    }
}
