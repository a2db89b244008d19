package import PostgresClient
package import WidgetModel

extension PostgresStatement where Self == Statements {
    /// Reads the database's time. Behind a lock on rows it is later than all times that other transactions have stored
    /// in them.
    ///
    /// Times from outside are limited to it before they are compared or stored: one that lies ahead would make all
    /// correct changes until then outdated. A stored time that lies ahead nevertheless, from a server with another clock,
    /// counts as none.
    package static func databaseTime() -> PostgresQuery<Timestamp> {
        PostgresQuery("SELECT clock_timestamp() AS now") { row in try row.value("now") }
    }
}

/// SQL for a stored time that counts as none if it lies ahead of the database's clock.
func usableTime(_ column: String) -> String { "CASE WHEN \(column) <= clock_timestamp() THEN \(column) END" }
