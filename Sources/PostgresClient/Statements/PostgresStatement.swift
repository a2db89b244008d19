/// One statement: its text, its parameters, and the reading of its rows. Each connection prepares a text once.
@usableFromInline
package protocol PostgresStatement: Sendable {
    associatedtype Row: Sendable = Void

    /// Name for errors; by default the type's name.
    var name: String { get }

    /// Text, the same at every call, in which every parameter is cast: `$1::int8[]`.
    var sql: String { get }

    /// Parameters in order; by default none.
    var parameters: PostgresParameters { get }

    /// Reads one row, on the connection's thread. By default a `Void` row reads nothing.
    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row
}

extension PostgresStatement {
    package var name: String { String(describing: Self.self) }

    @inlinable
    package var parameters: PostgresParameters { PostgresParameters() }
}

extension PostgresStatement where Row == Void {
    @inlinable
    package func decode(_ row: borrowing PostgresRow) throws(PostgresError) {}
}

/// A statement as a value, made and named by a function:
///
///     extension PostgresStatement where Self == Statements {
///         static func findApp(_ name: String) -> PostgresQuery<Int32> {
///             PostgresQuery("SELECT id FROM app WHERE name = $1::text", name) { row in try row.value("id") }
///         }
///     }
///
///     let id = try await pool.query(.findApp("com.example.bank")).first
package struct PostgresQuery<Row: Sendable>: PostgresStatement {
    package let name: String
    package let sql: String
    package let parameters: PostgresParameters
    private let read: @Sendable (borrowing PostgresRow) throws -> Row

    /// - Parameter values: the parameters; nil is NULL.
    package init<each Value: PostgresValue>(
        _ sql: String, _ values: repeat (each Value)?, function: String = #function,
        read: @escaping @Sendable (borrowing PostgresRow) throws -> Row
    ) {
        self.init(sql, binding: PostgresParameters(repeat each values), function: function, read: read)
    }

    package init(
        _ sql: String, binding parameters: PostgresParameters, function: String = #function,
        read: @escaping @Sendable (borrowing PostgresRow) throws -> Row
    ) {
        name = String(function.prefix { $0 != "(" })
        (self.sql, self.parameters, self.read) = (sql, parameters, read)
    }

    package func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        do {
            return try read(row)
        } catch {
            throw error as? PostgresError ?? PostgresError(.decoding, "\(error)")
        }
    }
}

extension PostgresQuery where Row == Void {
    package init<each Value: PostgresValue>(
        _ sql: String, _ values: repeat (each Value)?, function: String = #function
    ) {
        self.init(sql, binding: PostgresParameters(repeat each values), function: function) { _ in }
    }

    package init(_ sql: String, binding parameters: PostgresParameters, function: String = #function) {
        self.init(sql, binding: parameters, function: function) { _ in }
    }
}

/// Namespace of the functions that make statements.
package typealias Statements = PostgresQuery<Never>
