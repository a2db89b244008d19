// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing

extension Tag {
    @Tag static var postgres: Self
}

/// Sends a value of a type, alone and in arrays, and reads it back.
private struct Echo<Value: PostgresValue>: PostgresStatement {
    struct Row: Sendable {
        var value: Value
        var null: Value?
        var array: [Value]
        var optionals: [Value?]
        var empty: [Value]
        var nullArray: [Value]?
    }

    // The text has no casts, since the parameters' declared types are tested.
    var sql: String {
        """
        SELECT $1 AS value, $2 AS null, $3 AS array, $4 AS optionals, $5 AS empty,
               NULL::\(Value.postgresType.name)[] AS null_array
        """
    }

    var value: Value

    var parameters: PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(value)
        parameters.append(nil as Value?)
        parameters.append(array: [value, value, value])
        parameters.append(array: [nil, value, nil])
        parameters.append(array: [Value]())
        return parameters
    }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            value: try row.value("value"), null: try row.optional("null"), array: try row.array("array"),
            optionals: try row.arrayOfOptionals("optionals"), empty: try row.array("empty"),
            nullArray: try row.optionalArray("null_array"))
    }
}

/// Reads a literal from the server.
private struct Literal<Value: PostgresValue>: PostgresStatement {
    var sql: String {
        "SELECT ($1::text)::\(Value.postgresType.name) AS value, $2::\(Value.postgresType.name)::text AS text"
    }

    var text: String
    var value: Value

    var parameters: PostgresParameters { PostgresParameters(text, value) }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> (Value, String) {
        (try row.value("value"), try row.value("text"))
    }
}

@Suite(.tags(.postgres), .timeLimit(.patience))
struct RoundTripTests {
    /// Checks that every value is returned unchanged, alone and in arrays, among NULLs.
    private func expectEcho<Value: PostgresValue & Equatable>(
        _ values: [Value], on pool: PostgresPool, same: (Value, Value) -> Bool = { $0 == $1 },
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        for value in values {
            let row = try #require(try await pool.query(Echo(value: value)).first, sourceLocation: sourceLocation)
            #expect(same(row.value, value), "\(row.value) is not \(value)", sourceLocation: sourceLocation)
            #expect(row.null == nil, sourceLocation: sourceLocation)
            #expect(row.array.count == 3 && row.array.allSatisfy { same($0, value) }, sourceLocation: sourceLocation)
            #expect(row.optionals.count == 3 && row.optionals[0] == nil && row.optionals[2] == nil)
            #expect(row.optionals[1].map { same($0, value) } == true, sourceLocation: sourceLocation)
            #expect(row.empty.isEmpty, sourceLocation: sourceLocation)
            #expect(row.nullArray == nil, sourceLocation: sourceLocation)
        }
    }

    @Test func everyTypeComesBackAsItWasSent() async throws {
        try await withDatabase { database in
            let pool = database.pool
            try await expectEcho([Int16.min, -1, 0, .max], on: pool)
            try await expectEcho([Int32.min, -1, 0, .max], on: pool)
            try await expectEcho([Int64.min, -1, 0, .max], on: pool)
            try await expectEcho([Int.min, -1, 0, .max], on: pool)
            try await expectEcho([true, false], on: pool)
            try await expectEcho(["", "a", "käse 🧀 \u{1F468}\u{200D}\u{1F469}", "a'b\\c\"{}\n,NULL"], on: pool)
            try await expectEcho([[], [0, 255, 0], [92, 120]] as [[UInt8]], on: pool)
            try await expectEcho(
                [UInt128(0), UInt128(UInt64.max) << 64 | 1, 1 << 64 | UInt128(UInt64.max), .max], on: pool)
            try await expectEcho(
                [
                    PostgresTimestamp(microseconds: 0), PostgresTimestamp(microseconds: 1_766_000_000_123_456),
                    PostgresTimestamp(microseconds: -1), PostgresTimestamp(microseconds: .max),
                    PostgresTimestamp(microseconds: .min),
                ], on: pool)
        }
    }

    @Test func floatsKeepEveryBit() async throws {
        try await withDatabase { database in
            let doubles = [
                0, -0.0, 1.1, .pi, .infinity, -.infinity, .nan, .leastNonzeroMagnitude, .greatestFiniteMagnitude,
            ]
            try await expectEcho(doubles, on: database.pool) { $0.bitPattern == $1.bitPattern || $0.isNaN && $1.isNaN }
        }
    }

    /// Checks that the server interprets values in the same way, not only that it returns them.
    @Test func valuesMeanTheSameToTheServer() async throws {
        try await withDatabase { database in
            func expect<Value: PostgresValue & Equatable>(_ value: Value, is text: String, written: String? = nil)
                async throws
            {
                let rows = try await database.pool.query(Literal(text: text, value: value))
                #expect(rows.first?.0 == value, "\(text)")
                #expect(rows.first?.1 == written ?? text)
            }
            try await expect(Int64(-42), is: "-42")
            try await expect(Int16(-300), is: "-300")
            try await expect(Double(1.5), is: "1.5")
            try await expect(true, is: "true")
            try await expect([0xDE, 0xAD] as [UInt8], is: "\\xdead")
            try await expect(
                0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210 as UInt128, is: "01234567-89ab-cdef-fedc-ba9876543210")
            try await expect(PostgresTimestamp(microseconds: .max), is: "infinity")
            try await expect(PostgresTimestamp(microseconds: .min), is: "-infinity")
            try await database.pool.withConnection { connection in
                connection.discardAfterUse()
                try await connection.simple("SET TimeZone = 'UTC'")
                let rows = try await connection.query(
                    Literal(
                        text: "2026-02-03 04:05:06.789012+00",
                        value: PostgresTimestamp(microseconds: 1_770_091_506_789_012)))
                #expect(rows.first?.0 == PostgresTimestamp(microseconds: 1_770_091_506_789_012))
                #expect(rows.first?.1 == "2026-02-03 04:05:06.789012+00")
            }
        }
    }

    @Test func largeValuesComeBack() async throws {
        try await withDatabase { database in
            let bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
            let row = try #require(try await database.pool.query(Echo(value: bytes)).first)
            #expect(row.value == bytes)
            #expect(row.array.count == 3 && row.array[2] == bytes)
        }
    }

    @Test func arraysUnnestIntoRows() async throws {
        struct Sum: PostgresStatement {
            let sql = """
                SELECT sum(i)::int8 AS sum, string_agg(t, '' ORDER BY i) AS text, count(*) - count(u) AS nulls
                FROM unnest($1::int8[], $2::text[], $3::uuid[]) AS s(i, t, u)
                """
            var count: Int

            var parameters: PostgresParameters {
                var parameters = PostgresParameters()
                parameters.append(array: Array(0..<count))
                parameters.append(array: (0..<count).map { String($0 % 10) })
                parameters.append(
                    array: (0..<count).map { $0 % 4 == 0 ? nil : UInt128($0) })
                return parameters
            }

            func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> (Int, String, Int) {
                (try row.value("sum"), try row.value("text"), try row.value("nulls"))
            }
        }
        try await withDatabase { database in
            let row = try #require(try await database.pool.query(Sum(count: 4096)).first)
            #expect(row.0 == 4096 * 4095 / 2)
            #expect(row.1 == (0..<4096).map { String($0 % 10) }.joined())
            #expect(row.2 == 1024)
        }
    }

    @Test func enumerationsBindTheirRawValues() async throws {
        enum Lane: Int16, PostgresConvertible, Equatable {
            case interactive, push
        }
        try await withDatabase { database in
            try await expectEcho([Lane.interactive, .push], on: database.pool)
            struct Wrong: PostgresStatement {
                let sql = "SELECT 7::int2 AS lane"
                func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Lane { try row.value("lane") }
            }
            await #expect { try await database.pool.query(Wrong()) } throws: { error in
                (error as? PostgresError)?.kind == .decoding
            }
        }
    }
}
