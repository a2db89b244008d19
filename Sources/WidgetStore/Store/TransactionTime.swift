package import PostgresClient
package import WidgetModel

extension PostgresStatement where Self == Statements {
    /// Reads the database's time at the beginning of the transaction, which is the same in all of its statements.
    ///
    /// Times from outside are limited to it before they are compared or stored: one that lies ahead would make all
    /// correct changes until then outdated.
    package static func transactionTime() -> PostgresQuery<Timestamp> {
        PostgresQuery("SELECT now() AS now") { row in try row.value("now") }
    }
}
