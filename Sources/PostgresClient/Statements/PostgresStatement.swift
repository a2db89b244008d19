/// One statement: its text, its parameters, and how its rows are read, in one place. Prepared once a connection, by its
/// text.
@usableFromInline
package protocol PostgresStatement: Sendable {
    associatedtype Row: Sendable = Void

    /// The text. Every parameter is cast in it: `$1::int8[]`. The same at every call.
    static var sql: String { get }

    /// Appends the parameters, in order. Default: none.
    func bind(_ parameters: inout PostgresParameters)

    /// Reads one row; called on the connection's thread, for each row of the result. Default, when `Row` is `Void`:
    /// reads nothing.
    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row
}

extension PostgresStatement {
    @inlinable
    package func bind(_ parameters: inout PostgresParameters) {}
}

extension PostgresStatement where Row == Void {
    @inlinable
    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) {}
}
