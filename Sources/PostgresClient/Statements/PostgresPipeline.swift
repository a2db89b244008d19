/// Several statements in one round trip (libpq's pipeline mode, one sync). All of them take effect or none, also outside of a
/// transaction.
package struct PostgresPipeline: Sendable {
    /// Finds one statement's results in those of the pipeline that it was appended to.
    package struct Handle<Row: Sendable>: Sendable {
        let index: Int
    }

    /// One statement, ready to be sent.
    struct Item: Sendable {
        /// Statements are prepared by text and parameter types.
        let sql: String
        let parameters: PostgresParameters
        let name: String
        /// Reads the rows, as an array of the statement's `Row`; nil when the caller does not want them.
        let decode: (@Sendable (borrowing LibpqResult) throws(PostgresError) -> any Sendable)?
    }

    private(set) var items: [Item] = []
    /// Number of statements, the last ones, that follow the COMMIT.
    private(set) var followers = 0

    package init() {}

    /// Appends a statement; the handle finds its results.
    package mutating func append<Statement: PostgresStatement>(_ statement: Statement) -> Handle<Statement.Row> {
        precondition(followers == 0, "only statements that follow the COMMIT can be appended behind others that do")
        return add(statement)
    }

    /// Appends a statement that runs after the COMMIT of ``PostgresConnection/transaction(_:)``, in the same round trip.
    /// It does not run if anything before it fails, the COMMIT included.
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

    /// The rows of one statement. A handle of another pipeline is a programming error.
    package func rows<Row>(_ handle: PostgresPipeline.Handle<Row>) -> [Row] {
        guard let rows = outcomes[handle.index].rows as? [Row] else {
            preconditionFailure("a handle of another pipeline")
        }
        return rows
    }

    /// Rows that one statement inserted, updated, deleted or selected.
    package func affected<Row>(_ handle: PostgresPipeline.Handle<Row>) -> Int {
        outcomes[handle.index].affected
    }
}
