// SPDX-License-Identifier: Apache-2.0

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

    /// Reads all rows of a result; by default one after the other.
    func decode(_ result: borrowing LibpqResult) throws(PostgresError) -> [Row]
}

extension PostgresStatement {
    package var name: String { String(describing: Self.self) }

    @inlinable
    package var parameters: PostgresParameters { PostgresParameters() }

    package func decode(_ result: borrowing LibpqResult) throws(PostgresError) -> [Row] {
        try result.rows { row in try decode(row) }
    }
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
@usableFromInline
package struct PostgresQuery<Row: Sendable>: PostgresStatement {
    /// Declaration of the function that made it.
    @usableFromInline let function: String
    @usableFromInline package let sql: String
    @usableFromInline package let parameters: PostgresParameters
    @usableFromInline let read: @Sendable (borrowing PostgresRow) throws -> Row
    /// Reads all rows, by code that knows their type.
    @usableFromInline let readAll: @Sendable (borrowing LibpqResult) throws(PostgresError) -> [Row]

    /// - Parameter values: the parameters; nil is NULL.
    @inlinable
    package init<each Value: PostgresValue>(
        _ sql: String, _ values: repeat (each Value)?, function: String = #function,
        read: @escaping @Sendable (borrowing PostgresRow) throws -> Row
    ) {
        self.init(sql, binding: PostgresParameters(repeat each values), function: function, read: read)
    }

    @inlinable
    package init(
        _ sql: String, binding parameters: PostgresParameters, function: String = #function,
        read: @escaping @Sendable (borrowing PostgresRow) throws -> Row
    ) {
        (self.function, self.sql, self.parameters, self.read) = (function, sql, parameters, read)
        readAll = { result throws(PostgresError) in try result.rows(read) }
    }

    /// - Parameter append: called for each row of the result; adds a new element, or changes the last one.
    @inlinable
    package init(
        _ sql: String, binding parameters: PostgresParameters, function: String = #function,
        append: @escaping @Sendable (borrowing PostgresRow, inout [Row]) throws -> Void
    ) {
        (self.function, self.sql, self.parameters) = (function, sql, parameters)
        read = { row in
            var rows: [Row] = []
            try append(row, &rows)
            guard let first = rows.first else { throw Self.addsNothing }
            return first
        }
        readAll = { result throws(PostgresError) in try result.gatheredRows(by: append) }
    }

    @usableFromInline static var addsNothing: PostgresError { PostgresError(.decoding, "the row adds nothing") }

    @usableFromInline package var name: String { String(function.utf8.prefix { $0 != UInt8(ascii: "(") }) ?? function }

    @usableFromInline
    package func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        do { return try read(row) } catch { throw PostgresError(decoding: error) }
    }

    @usableFromInline
    package func decode(_ result: borrowing LibpqResult) throws(PostgresError) -> [Row] { try readAll(result) }
}

extension PostgresQuery where Row == Void {
    @inlinable
    package init<each Value: PostgresValue>(
        _ sql: String, _ values: repeat (each Value)?, function: String = #function
    ) {
        self.init(sql, binding: PostgresParameters(repeat each values), function: function) { _ in }
    }

    @inlinable
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
        /// Size of an element's value in its array.
        @usableFromInline let size: @Sendable (Element) -> Int
        @usableFromInline let append: @Sendable ([Element], inout PostgresParameters) -> Void

        // Inlinable, so that values are encoded without an allocation for each.
        @inlinable
        package init<Value: PostgresValue>(_ name: String, _ value: @escaping @Sendable (Element) -> Value) {
            self.name = name
            type = Value.postgresType.name
            size = { 4 + value($0).encodedCount }
            append = { elements, parameters in parameters.append(arrayOf: elements, value) }
        }

        @inlinable
        package init<Value: PostgresValue>(_ name: String, _ value: @escaping @Sendable (Element) -> Value?) {
            self.name = name
            type = Value.postgresType.name
            size = { 4 + (value($0)?.encodedCount ?? 0) }
            append = { elements, parameters in parameters.append(arrayOf: elements, value) }
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
    /// - Parameter first: number of the first parameter.
    package func rows(_ alias: String, first: Int = 1) -> String {
        let arrays = columns.indices.map { array($0, first: first) }
        return "unnest(\(arrays.joined(separator: ", "))) WITH ORDINALITY AS \(alias) (\(names), ord)"
    }

    /// Set-returning expression like ``rows(_:first:)`` of some columns only. With ``element(_:at:first:)`` for the
    /// others, PostgreSQL does not copy them from node to node.
    package func rows(_ alias: String, only names: [String], first: Int = 1) -> String {
        let arrays = names.map { array(of: $0, first: first) }.joined(separator: ", ")
        return "unnest(\(arrays)) WITH ORDINALITY AS \(alias) (\(names.joined(separator: ", ")), ord)"
    }

    /// A column's value of the row whose place `ord` is an expression. To find an element of variable length,
    /// PostgreSQL passes through those before it, so this is for columns of fixed length, or for few rows.
    package func element(_ name: String, at ord: String, first: Int = 1) -> String {
        "(\(array(of: name, first: first)))[\(ord)]"
    }

    /// A column's array.
    package func array(of name: String, first: Int = 1) -> String {
        guard let index = columns.firstIndex(where: { $0.name == name }) else {
            preconditionFailure("the input has no column \(name)")
        }
        return array(index, first: first)
    }

    private func array(_ index: Int, first: Int) -> String { "$\(first + index)::\(columns[index].type)[]" }

    /// Appends an array for each column.
    package func bind(_ elements: [Element], to parameters: inout PostgresParameters) {
        // Elements are mostly as large as the first one. Beyond 1 MiB, the buffer grows.
        let most = 1 << 20
        let size = elements.first.map { first in columns.reduce(0) { $0 + $1.size(first) } } ?? 0
        parameters.reserve(min(20 * columns.count + elements.count * min(size, most), most))
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

/// Statements in one round trip (libpq's pipeline mode, one sync). All take effect or none, also outside of a
/// transaction.
package struct PostgresPipeline: Sendable {
    /// Reference to a statement's results in those of its pipeline.
    package struct Handle<Row: Sendable>: Sendable {
        let index: Int
    }

    /// One statement to send.
    struct Item: Sendable {
        /// Statements are prepared by text and parameter types.
        let sql: String
        let parameters: PostgresParameters
        let name: String
        /// Reads the rows as an array of the statement's `Row`; nil if the caller does not need them.
        let decode: (@Sendable (borrowing LibpqResult) throws(PostgresError) -> any Sendable)?
    }

    var items: [Item] = []
    /// The transaction of the statements, by its identity; nil outside of one.
    var transaction: UInt64?
    /// Whether the transaction is committed behind the statements. Otherwise they belong to an open transaction, or
    /// commit by themselves.
    var commits = false

    package init() {}

    /// Appends a statement and returns the handle of its results.
    package mutating func append<Statement: PostgresStatement>(_ statement: Statement) -> Handle<Statement.Row> {
        items.append(Item(statement, decodes: true))
        return Handle(index: items.count - 1)
    }

    package var isEmpty: Bool { items.isEmpty }

    package var count: Int { items.count }
}

extension PostgresPipeline.Item {
    init<Statement: PostgresStatement>(_ statement: Statement, decodes: Bool) {
        self.sql = statement.sql
        self.parameters = statement.parameters
        self.name = statement.name
        guard decodes else {
            self.decode = nil
            return
        }
        self.decode = { (result: borrowing LibpqResult) throws(PostgresError) -> any Sendable in
            try statement.decode(result)
        }
    }
}

/// Results of a pipeline's statements.
package struct PostgresPipelineResults: Sendable {
    var outcomes: [(rows: (any Sendable)?, affected: Int)] = []

    /// Rows of a statement. A handle of another pipeline is a programming error.
    package func rows<Row>(_ handle: PostgresPipeline.Handle<Row>) -> [Row] {
        guard let rows = outcomes[handle.index].rows as? [Row] else {
            preconditionFailure("a handle of another pipeline")
        }
        return rows
    }

    /// Number of rows that a statement inserted, updated, deleted or selected.
    package func affected<Row>(_ handle: PostgresPipeline.Handle<Row>) -> Int {
        outcomes[handle.index].affected
    }
}
