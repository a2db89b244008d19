import PostgresClient
import TestSupport
import Testing

private struct Rows: PostgresStatement {
    static let sql = "SELECT id, name, score FROM item ORDER BY id"

    struct Row: Sendable, Equatable {
        var id: Int
        var name: String?
        var score: Double?
    }

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(id: try row.value("id"), name: try row.optional("name"), score: try row.optional("score"))
    }
}

private struct Summary: PostgresStatement {
    static let sql = "SELECT count(*) AS count, coalesce(sum(id), 0)::int8 AS sum FROM item"
    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> [Int] {
        [try row.value("count"), try row.value("sum")]
    }
}

private let items = DatabaseTemplate(key: "copy") { pool in
    try await pool.withConnection {
        try await $0.simple("CREATE TABLE item (id int8 PRIMARY KEY, name text, score float8)")
    }
}

private let binaryCopy = "COPY item (id, name, score) FROM STDIN (FORMAT binary)"

private struct SourceFailed: Error {}

@Suite(.tags(.postgres), .timeLimit(.patience))
struct CopyTests {
    @Test func textChunksMayBeCutAnywhere() async throws {
        try await withDatabase(template: items) { database in
            let text = Array("1\tone\t1.5\n2\t\\N\t\\N\n3\tdrüben\tNaN\n".utf8)
            let count = try await database.pool.withConnection {
                try await $0.copyIn("COPY item FROM STDIN") { write in
                    for byte in text { try await write([byte]) }
                    try await write([])
                }
            }
            #expect(count == 3)
            let rows = try await database.pool.query(Rows())
            #expect(rows.map(\.id) == [1, 2, 3])
            #expect(rows.map(\.name) == ["one", nil, "drüben"])
            #expect(rows[0].score == 1.5 && rows[1].score == nil && rows[2].score?.isNaN == true)
        }
    }

    @Test func binaryRowsAreEncodedFromValues() async throws {
        try await withDatabase(template: items) { database in
            let rows = [
                Rows.Row(id: 1, name: "a\tb\n\\", score: 0.1), Rows.Row(id: 2, name: nil, score: nil),
                Rows.Row(id: 3, name: "", score: -.infinity),
            ]
            let count = try await database.pool.withConnection { connection in
                try await connection.copyIn(binaryCopy, rows: rows) { item, row in
                    row.append(item.id)
                    row.append(item.name)
                    row.append(item.score)
                }
            }
            #expect(count == 3)
            try await #expect(database.pool.query(Rows()) == rows)
        }
    }

    @Test func manyRowsFlowInATransaction() async throws {
        try await withDatabase(template: items) { database in
            let name = String(repeating: "n", count: 200)
            let count = try await database.pool.withTransaction { transaction in
                let count = try await transaction.copyIn(binaryCopy, rows: 1...50_000) { id, row in
                    row.append(id)
                    row.append(name)
                    row.append(nil as Double?)
                }
                try await #expect(transaction.query(Summary()) == [[50_000, 1_250_025_000]])
                try await #expect(database.pool.query(Summary()) == [[0, 0]])
                return count
            }
            #expect(count == 50_000)
            try await #expect(database.pool.query(Summary()) == [[50_000, 1_250_025_000]])
        }
    }

    @Test func anEmptyCopyIsNoRows() async throws {
        try await withDatabase(template: items) { database in
            try await database.pool.withConnection { connection in
                try await #expect(connection.copyIn(binaryCopy, rows: [Int]()) { id, row in row.append(id) } == 0)
                try await #expect(connection.query(Summary()) == [[0, 0]])
            }
        }
    }

    @Test func theSourcesErrorEndsTheCopyAndComesBack() async throws {
        try await withDatabase(template: items) { database in
            try await database.pool.withConnection { connection in
                await #expect(throws: SourceFailed.self) {
                    _ = try await connection.copyIn(binaryCopy, rows: 1...10_000) { id, row in
                        if id == 9_999 { throw SourceFailed() }
                        row.append(id)
                        row.append("name")
                        row.append(1.0)
                    }
                }
                try await #expect(connection.query(Summary()) == [[0, 0]])
            }
            #expect(database.pool.statistics.open == 1)
        }
    }

    @Test func theServersErrorEndsTheCopy() async throws {
        try await withDatabase(template: items) { database in
            try await database.pool.withConnection { connection in
                let duplicate = await postgresError {
                    try await connection.copyIn(binaryCopy, rows: [1, 2, 1]) { id, row in
                        row.append(id)
                        row.append(nil as String?)
                        row.append(nil as Double?)
                    }
                }
                #expect(duplicate?.sqlState == "23505")
                let wrongShape = await postgresError {
                    try await connection.copyIn(binaryCopy, rows: [1]) { id, row in row.append(id) }
                }
                #expect(wrongShape?.sqlState == "22P04")
                let noCopy = await postgresError { try await connection.copyIn("SELECT 1", rows: [1]) { _, _ in } }
                #expect(noCopy?.kind == .misuse)
                let missing = await postgresError {
                    try await connection.copyIn("COPY nowhere FROM STDIN", rows: [1]) { _, _ in }
                }
                #expect(missing?.sqlState == "42P01")
                try await #expect(connection.query(Summary()) == [[0, 0]])
            }
        }
    }

    @Test func aNULByteEndsTheCopy() async throws {
        try await withDatabase(template: items) { database in
            try await database.pool.withConnection { connection in
                let error = await postgresError {
                    try await connection.copyIn(binaryCopy, rows: [1]) { id, row in
                        row.append(id)
                        row.append("a\0b")
                        row.append(nil as Double?)
                    }
                }
                #expect(error?.kind == .encoding)
                #expect(error?.message == "column 1 holds a NUL byte, which text cannot hold")
                try await #expect(connection.query(Summary()) == [[0, 0]])
            }
        }
    }

    /// The connection comes out of the COPY, and statements in between are refused.
    @Test func aCancelledCopyLeavesNothing() async throws {
        try await withDatabase(template: items) { database in
            try await database.pool.withConnection { connection in
                let hasBegun = Gate()
                let (chunks, input) = AsyncStream<[UInt8]>.makeStream()
                let copying = Task {
                    try await connection.copyIn("COPY item FROM STDIN") { write in
                        for await chunk in chunks {
                            hasBegun.open()
                            try await write(chunk)
                        }
                    }
                }
                input.yield(Array("1\ta\t1\n".utf8))
                try await hasBegun.pass()
                let meanwhile = await postgresError { try await connection.query(SelectOne(value: 1)) }
                #expect(meanwhile?.kind == .misuse)
                copying.cancel()
                // A stream ends when its reader is cancelled: the rows so far must not pass for all of them.
                input.finish()
                let result = await copying.result
                #expect(throws: (any Error).self) { try result.get() }
                try await #expect(connection.query(Summary()) == [[0, 0]])
            }
        }
    }
}
