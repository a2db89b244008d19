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

/// Columns of a statement's input rows, each declared once with its name in the text and its value of an element.
///
///     private let deletions = InputColumns<Deletion>([.init("id") { $0.id }, .init("lease") { $0.lease }])
///     private let text = "WITH input AS MATERIALIZED (SELECT * FROM \(deletions.rows("i")) …"
///     static func delete(_ rows: [Deletion]) -> … { PostgresQuery(text, binding: deletions.parameters(rows)) }
@usableFromInline
package struct InputColumns<Element: Sendable>: Sendable {
    @usableFromInline
    package struct Column: Sendable {
        @usableFromInline let name: String
        @usableFromInline let type: String
        @usableFromInline let append: @Sendable ([Element], inout PostgresParameters) -> Void

        // Inlinable, so that values are encoded without an allocation for each.
        @inlinable
        package init<Value: PostgresValue>(_ name: String, _ value: @escaping @Sendable (Element) -> Value) {
            self.name = name
            type = Value.postgresType.name
            append = { $1.append(PostgresArray($0.map(value))) }
        }

        @inlinable
        package init<Value: PostgresValue>(_ name: String, _ value: @escaping @Sendable (Element) -> Value?) {
            self.name = name
            type = Value.postgresType.name
            append = { $1.append(array: $0.map(value)) }
        }
    }

    private let columns: [Column]

    package init(_ columns: [Column]) {
        self.columns = columns
    }

    package var count: Int { columns.count }

    /// Names of the columns, for a select list or a column list.
    package var names: String { columns.map(\.name).joined(separator: ", ") }

    /// Assignments of the columns for `ON CONFLICT … DO UPDATE SET`.
    package var updates: String { columns.map { "\($0.name) = excluded.\($0.name)" }.joined(separator: ", ") }

    /// Set-returning expression with an alias and column names, and the row's place from 1 as `ord`.
    ///
    /// The sub-selects hide the arrays' lengths from the planner, which would otherwise plan every call.
    ///
    /// - Parameter first: number of the first parameter.
    package func rows(_ alias: String, first: Int = 1) -> String {
        let arrays = columns.enumerated().map { "(SELECT $\(first + $0.offset)::\($0.element.type)[])" }
        return "unnest(\(arrays.joined(separator: ", "))) WITH ORDINALITY AS \(alias) (\(names), ord)"
    }

    /// Appends an array for each column.
    package func bind(_ elements: [Element], to parameters: inout PostgresParameters) {
        for column in columns { column.append(elements, &parameters) }
    }

    /// An array for each column, then other parameters.
    package func parameters<each Value: PostgresValue>(
        _ elements: [Element], _ others: repeat (each Value)?
    ) -> PostgresParameters {
        var parameters = PostgresParameters()
        bind(elements, to: &parameters)
        repeat parameters.append(each others)
        return parameters
    }
}
