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

    private(set) var items: [Item] = []
    /// Number of the last statements that follow the COMMIT.
    private(set) var followers = 0

    package init() {}

    /// Appends a statement and returns the handle of its results.
    package mutating func append<Statement: PostgresStatement>(_ statement: Statement) -> Handle<Statement.Row> {
        precondition(followers == 0, "only statements that follow the COMMIT can be appended behind others that do")
        return add(statement)
    }

    /// Appends a statement that runs after the COMMIT of ``PostgresConnection/transaction(_:)``, in the same round
    /// trip, if everything before it succeeds.
    package mutating func appendAfterCommit<Statement: PostgresStatement>(
        _ statement: Statement
    ) -> Handle<Statement.Row> {
        followers += 1
        return add(statement)
    }

    private mutating func add<Statement: PostgresStatement>(_ statement: Statement) -> Handle<Statement.Row> {
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
            var rows: [Statement.Row] = []
            rows.reserveCapacity(result.rowCount)
            try result.forEachRow { row throws(PostgresError) in
                rows.append(try statement.decode(row))
            }
            return rows
        }
    }
}

/// Results of a pipeline's statements.
package struct PostgresPipelineResults: Sendable {
    struct Outcome: Sendable {
        var rows: (any Sendable)?
        var affected: Int
    }

    var outcomes: [Outcome]

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
