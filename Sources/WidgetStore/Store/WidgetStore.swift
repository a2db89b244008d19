package import PostgresClient

/// The one place that reads and writes Freshet's state: operations that take several statements. Single statements are
/// run as they are, on a pool or a connection.
package struct WidgetStore: Sendable {
    package let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }
}
