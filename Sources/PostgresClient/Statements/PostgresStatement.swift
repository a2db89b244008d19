/// One statement: its text, its parameters, and how its rows are read. Each connection prepares a text once.
@usableFromInline
package protocol PostgresStatement: Sendable {
    associatedtype Row: Sendable = Void

    /// The text. Every parameter is cast in it: `$1::int8[]`. The same at every call.
    static var sql: String { get }

    /// The parameters, in order. Default: none.
    var parameters: PostgresParameters { get }

    /// Reads one row; called on the connection's thread, for each row of the result. Default, when `Row` is `Void`:
    /// reads nothing.
    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row
}

extension PostgresStatement {
    @inlinable
    package var parameters: PostgresParameters { PostgresParameters() }
}

extension PostgresStatement where Row == Void {
    @inlinable
    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) {}
}
