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
