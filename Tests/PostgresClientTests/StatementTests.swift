// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import TestSupport
import Testing

private struct InsertItems: PostgresStatement {
    let sql = "INSERT INTO item (id, name) SELECT * FROM unnest($1::int8[], $2::text[])"

    var items: [(id: Int, name: String?)]

    var parameters: PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(array: items.map(\.id))
        parameters.append(array: items.map(\.name))
        return parameters
    }
}

private struct SelectAny<Value: PostgresValue>: PostgresStatement {
    var sql: String {
        "SELECT id AS number, name AS label, '{{1,2},{3,4}}'::int8[] AS square FROM item ORDER BY id"
    }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Value { try row.value("label") }
}

private let items = DatabaseTemplate(key: "items") { pool in
    try await pool.withConnection { connection in
        try await connection.simple(
            """
            CREATE TABLE item (id int8 PRIMARY KEY, name text CONSTRAINT item_name_check CHECK (name <> 'bad'));
            INSERT INTO item VALUES (1, 'one'), (2, NULL);
            """)
    }
}

/// Reads columns by name in an order that is not that of the select list, some of them twice.
private struct Shuffled: PostgresStatement {
    let sql = """
        SELECT n AS first, n * 10 AS second, 'x' || n AS third, NULL::int8 AS fourth, ARRAY[n, n + 1] AS fifth
        FROM generate_series(1, 3) n
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String {
        let fifth: [Int32] = try row.array("fifth")
        let second: Int32 = try row.value("second")
        let fourth = try row.optional("fourth", as: Int.self)
        let first: Int32 = try row.value("first")
        let third: String = try row.value("third")
        let again: Int = try row.value("second")
        return "\(first) \(second) \(third) \(fourth.map { "\($0)" } ?? "NULL") \(fifth) \(again)"
    }
}

/// Reads texts that equal those of the row before, or differ from them in length, content or NULL.
private struct Repeated: PostgresStatement {
    let sql = """
        SELECT * FROM (VALUES (1, 'aa', 'aa'), (2, 'aa', NULL), (3, 'ab', 'aa'), (4, '', 'a'), (5, '', ''), (6, 'ä', 'ä'))
            AS t (id, first, second) ORDER BY id
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String {
        let first = try row.repeatedText("first")
        return "\(first) \(try row.optionalRepeatedText("second") ?? "NULL")"
    }
}

/// Reads a NULL, and a number, as a repeated text.
private struct NoText: PostgresStatement {
    let sql: String

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.repeatedText("text") }
}

@Suite(.tags(.postgres), .timeLimit(.patience))
struct StatementTests {
    @Test("Columns are read by name in any order")
    func order() async throws {
        try await withDatabase { database in
            try await #expect(
                database.pool.query(Shuffled()) == [
                    "1 10 x1 NULL [1, 2] 10", "2 20 x2 NULL [2, 3] 20", "3 30 x3 NULL [3, 4] 30",
                ])
        }
    }

    @Test("Texts that repeat in consecutive rows are those of their rows")
    func repeatedTexts() async throws {
        try await withDatabase { database in
            try await #expect(
                database.pool.query(Repeated()) == ["aa aa", "aa NULL", "ab aa", " a", " ", "ä ä"])
            let null = await postgresError { try await database.pool.query(NoText(sql: "SELECT NULL::text AS text")) }
            #expect(null?.message == "column \"text\": expected text, found NULL")
            let number = await postgresError { try await database.pool.query(NoText(sql: "SELECT 1::int8 AS text")) }
            #expect(number?.message == "column \"text\": expected text, found int8")
        }
    }

    @Test("A query can gather several rows of a result in one")
    func gathered() async throws {
        let sql = "SELECT n / 2 AS half, n FROM generate_series(0, 4) n ORDER BY n"
        let query = PostgresQuery<(half: Int32, all: [Int32])>(sql, binding: PostgresParameters()) { row, rows in
            let half: Int32 = try row.value("half")
            if rows.last?.half != half { rows.append((half, [])) }
            rows[rows.count - 1].all.append(try row.value("n"))
        }
        try await withDatabase { database in
            try await #expect(database.pool.query(query).map(\.all) == [[0, 1], [2, 3], [4]])
        }
    }

    @Test func executeAnswersTheRowsAffected() async throws {
        try await withDatabase(template: items) { database in
            try await #expect(database.pool.execute(InsertItems(items: [(3, "a"), (4, nil), (5, "")])) == 3)
            try await #expect(database.pool.execute(InsertItems(items: [])) == 0)
            try await #expect(database.pool.query(Count()) == [5])
        }
    }

    private func withViolatedConstraint(_ body: (PostgresError) -> Void) async throws {
        try await withDatabase(template: items) { database in
            body(
                try #require(await postgresError { try await database.pool.execute(InsertItems(items: [(7, "bad")])) }))
        }
    }

    @Test func aViolatedConstraintIsNamed() async throws {
        try await withViolatedConstraint { error in
            #expect(error.kind == .server)
            #expect(error.sqlState == "23514")
            #expect(error.constraint == "item_name_check")
            #expect(error.statement == "InsertItems")
            #expect(!error.isRetriable)
            #expect(!error.commitOutcomeUnknown)
        }
    }

    @Test func theDescriptionOfAViolatedConstraintHasItsNameWithoutTheValues() async throws {
        try await withViolatedConstraint { error in
            #expect(error.detail?.contains("bad") == true)
            #expect(!error.description.contains("bad"))
            #expect(error.description.contains("item_name_check"))
        }
    }

    @Test func aSyntaxErrorNamesTheStatementAndLeavesTheConnectionUsable() async throws {
        struct Broken: PostgresStatement { let sql = "SELEC 1" }
        try await withDatabase { database in
            try await database.pool.withConnection { connection in
                for _ in 1...2 {
                    let error = await postgresError { try await connection.execute(Broken()) }
                    #expect(error?.sqlState == "42601")
                    #expect(error?.statement == "Broken")
                }
                try await #expect(connection.query(SelectOne(value: 5)) == [5])
            }
        }
    }

    @Test func decodingErrorsNameTheColumnAndBothTypes() async throws {
        try await withDatabase(template: items) { database in
            let wrongType = await postgresError { try await database.pool.query(SelectAny<Int>()) }
            #expect(wrongType?.kind == .decoding)
            #expect(wrongType?.message == "column \"label\": expected int8, found text")
            #expect(wrongType?.statement == "SelectAny<Int>")
            let null = await postgresError { try await database.pool.query(SelectAny<String>()) }
            #expect(null?.message == "column \"label\": expected text, found NULL")

            struct Square: PostgresStatement {
                let sql = "SELECT '{{1,2},{3,4}}'::int8[] AS square"
                func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> [Int] {
                    try row.array("square")
                }
            }
            let square = await postgresError { try await database.pool.query(Square()) }
            #expect(square?.message == "column \"square\": expected int8[], found an array of 2 dimensions")

            struct Holes: PostgresStatement {
                let sql = "SELECT ARRAY[1, NULL]::int8[] AS holes"
                func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> [Int] {
                    try row.array("holes")
                }
            }
            let holes = await postgresError { try await database.pool.query(Holes()) }
            #expect(holes?.message == "column \"holes\": expected int8[], found a NULL element")

            struct Missing: PostgresStatement {
                let sql = "SELECT 1 AS one"
                func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value("two") }
            }
            let missing = await postgresError { try await database.pool.query(Missing()) }
            #expect(missing?.message == "the result has no column \"two\"")
        }
    }

    @Test func narrowerColumnsAreWidened() async throws {
        struct Narrow: PostgresStatement {
            let sql = """
                SELECT 1::int2 AS a, -2::int4 AS b, 1.5::float4 AS c, 'x'::varchar AS d, '{1,2}'::int4[] AS e,
                       '{a}'::varchar[] AS f
                """

            func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> (
                Int, Int64, Double, String, [Int], [String]
            ) {
                (
                    try row.value("a"), try row.value("b"), try row.value("c"), try row.value("d"), try row.array("e"),
                    try row.array("f")
                )
            }
        }
        try await withDatabase { database in
            let row = try #require(try await database.pool.query(Narrow()).first)
            #expect(row == (1, -2, 1.5, "x", [1, 2], ["a"]))
        }
    }

    @Test func aNULByteIsAnErrorAndNothingIsSent() async throws {
        try await withDatabase(template: items) { database in
            let error = await postgresError {
                try await database.pool.execute(InsertItems(items: [(8, "a"), (9, "b\0c")]))
            }
            #expect(error?.kind == .encoding)
            #expect(error?.message == "parameter $2 holds a NUL byte, which text cannot hold")
            #expect(error?.statement == "InsertItems")
            try await #expect(database.pool.query(Count()) == [2])

            let simple = await postgresError {
                try await database.pool.withConnection { connection in
                    try await connection.simple("DELETE FROM item\0 WHERE false")
                }
            }
            #expect(simple?.kind == .encoding)
            try await #expect(database.pool.query(Count()) == [2])
        }
    }

    @Test func theStatementTimeoutIsAServerErrorAndNotACancellation() async throws {
        try await withDatabase {
            $0.statementTimeout = .milliseconds(500)
            // A server that a busy machine holds up does not count as silent.
            $0.cancelTimeout = Patience.limit
        } _: { database in
            try await database.pool.withConnection { connection in
                let error = await postgresError { try await connection.execute(Sleep(seconds: 30)) }
                #expect(error?.kind == .server)
                #expect(error?.sqlState == "57014")
                let next = try await retrying { try await connection.query(SelectOne(value: 1)) }
                #expect(next == [1])
            }
        }
    }

    @Test func noticesGoToTheLogger() async throws {
        let log = RecordedLog()
        try await withDatabase(logger: log.logger) { database in
            try await database.pool.withConnection { connection in
                try await connection.simple("DO $$ BEGIN RAISE WARNING 'look here'; RAISE NOTICE 'by the way'; END $$")
            }
            let lines = log.lines
            #expect(lines.contains { $0.level == .warning && $0.description.contains("look here") })
            #expect(lines.contains { $0.level == .info && $0.description.contains("by the way") })
        }
    }

    @Test func aChangedTableIsPreparedAnew() async throws {
        /// Returns the number of columns; `extra` is the third.
        struct Star: PostgresStatement {
            let sql = "SELECT * FROM item WHERE id = $1::int8"
            var parameters: PostgresParameters { PostgresParameters(1) }
            func decode(_ row: borrowing PostgresRow) -> Int {
                do throws(PostgresError) {
                    _ = try row.optional("extra", as: Int.self)
                    return 3
                } catch {
                    return 2
                }
            }
        }
        try await withDatabase(template: items) { database in
            try await database.pool.withConnection { connection in
                try await #expect(connection.query(Star()) == [2])
                try await connection.simple("ALTER TABLE item ADD COLUMN extra int4")
                try await #expect(connection.query(Star()) == [3])

                // The same as the first statement of a transaction, which can be restarted without loss.
                try await connection.simple("ALTER TABLE item DROP COLUMN extra")
                try await connection.withTransaction { transaction in
                    try await #expect(transaction.query(Star()) == [2])
                }
                // And in a complete transaction.
                try await connection.simple("ALTER TABLE item ADD COLUMN extra int8")
                var pipeline = PostgresPipeline()
                let star = pipeline.append(Star())
                try await #expect(connection.run(pipeline, commits: true).rows(star) == [3])

                // Later in a transaction the error is reported, but a retry succeeds.
                let error = await postgresError {
                    try await connection.withTransaction { transaction in
                        try await transaction.simple("ALTER TABLE item DROP COLUMN extra")
                        _ = try await transaction.query(Star())
                    }
                }
                #expect(error?.sqlState == "0A000")
                #expect(error?.isRetriable == true)
                try await connection.withTransaction { transaction in
                    try await transaction.simple("ALTER TABLE item DROP COLUMN extra")
                    try await #expect(transaction.query(Star()) == [2])
                }
            }
        }
    }

    @Test func aMissingPreparedStatementIsPreparedAnew() async throws {
        try await withDatabase { database in
            try await database.pool.withConnection { connection in
                try await #expect(connection.query(SelectOne(value: 1)) == [1])
                try await connection.simple("DEALLOCATE ALL")
                try await #expect(connection.query(SelectOne(value: 2)) == [2])
                try await connection.simple("DEALLOCATE ALL")
                try await connection.withTransaction { transaction in
                    try await #expect(transaction.query(SelectOne(value: 3)) == [3])
                }
            }
        }
    }

    /// One text with parameters of several declared types is several prepared statements.
    @Test func typesOfParametersAreKeptApart() async throws {
        struct Of<Value: PostgresValue>: PostgresStatement {
            var sql: String { "SELECT pg_typeof($1)::text AS type" }
            var value: Value
            var parameters: PostgresParameters { PostgresParameters(value) }
            func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("type") }
        }
        try await withDatabase { database in
            try await database.pool.withConnection { connection in
                try await #expect(connection.query(Of(value: 1)) == ["bigint"])
                try await #expect(connection.query(Of(value: "1")) == ["text"])
                try await #expect(connection.query(Of(value: 1.0)) == ["double precision"])
                try await #expect(connection.query(Of(value: Int16(1))) == ["smallint"])
            }
        }
    }
}
