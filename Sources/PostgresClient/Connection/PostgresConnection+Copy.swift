extension PostgresConnection {
    /// Chunks are gathered up to this size before they are handed to the connection's thread.
    private static let copyChunk = 1 << 16

    /// Runs `COPY … FROM STDIN`, in text or binary, with chunks of any size and at any boundary. Takes the next ones only
    /// when the server has taken the last.
    /// - Returns: The number of rows.
    /// - Throws: What `chunks` threw, after the COPY was given up; or a ``PostgresError``.
    package func copyIn<Chunks: AsyncSequence>(
        _ sql: String, chunks: Chunks
    ) async throws -> Int where Chunks.Element == [UInt8] {
        try await copyIn(sql) { write in
            for try await chunk in chunks { try await write(chunk) }
        }
    }

    /// Runs `COPY … FROM STDIN (FORMAT binary)`; `encode` appends each element's columns to its row.
    /// - Returns: The number of rows.
    /// - Throws: What `elements` or `encode` threw, after the COPY was given up; or a ``PostgresError``.
    package func copyIn<Elements: AsyncSequence>(
        _ sql: String, rows elements: Elements,
        encode: (Elements.Element, inout PostgresCopyRow) throws -> Void
    ) async throws -> Int {
        try await copyIn(sql) { write in
            var encoder = PostgresCopyEncoder()
            for try await element in elements {
                try encoder.append { row in try encode(element, &row) }
                if encoder.byteCount >= Self.copyChunk { try await write(encoder.take()) }
            }
            try await write(encoder.finish())
        }
    }

    /// As above, of rows that are in memory.
    package func copyIn<Elements: Sequence>(
        _ sql: String, rows elements: Elements,
        encode: (Elements.Element, inout PostgresCopyRow) throws -> Void
    ) async throws -> Int {
        try await copyIn(sql) { write in
            var encoder = PostgresCopyEncoder()
            for element in elements {
                try encoder.append { row in try encode(element, &row) }
                if encoder.byteCount >= Self.copyChunk { try await write(encoder.take()) }
            }
            try await write(encoder.finish())
        }
    }

    /// Runs `COPY … FROM STDIN`; `body` writes its data.
    private func copyIn(
        _ sql: String, _ body: (_ write: ([UInt8]) async throws -> Void) async throws -> Void
    ) async throws -> Int {
        try loan.validate()
        let transaction = transaction
        try await loan.thread.perform { driver throws(PostgresError) in
            try driver.beginCopy(sql, in: transaction)
        }
        do {
            var gathered: [UInt8] = []
            try await body { chunk in
                gathered.append(contentsOf: chunk)
                if gathered.count >= Self.copyChunk {
                    try await send(gathered)
                    gathered.removeAll(keepingCapacity: true)
                }
            }
            try await send(gathered)
            // A sequence may simply end when its reader is cancelled: what came so far must not pass for all of it.
            if Task.isCancelled { throw PostgresError.taskCancelled }
            return try await loan.thread.perform { driver throws(PostgresError) in
                try driver.endCopy()
            }
        } catch {
            // Shielded: the connection must come out of the COPY even when the task is cancelled. When it cannot, it is
            // lost, and the error that led here says more.
            do throws(PostgresError) {
                _ = try await loan.thread.perform(shielded: true) { driver throws(PostgresError) in
                    try driver.endCopy(failing: "the rows ended with an error")
                }
            } catch {
                loan.spoil()
            }
            throw error
        }
    }

    private func send(_ chunk: [UInt8]) async throws(PostgresError) {
        var rest = chunk[...]
        // One huge chunk is handed over in parts: libpq's buffer grows with what it cannot send at once.
        while !rest.isEmpty {
            let part = Array(rest.prefix(16 * Self.copyChunk))
            rest = rest.dropFirst(part.count)
            try await loan.thread.perform { driver throws(PostgresError) in
                try driver.copy(part)
            }
        }
    }
}

/// One row of a binary COPY: its columns, in order.
@usableFromInline
package struct PostgresCopyRow {
    @usableFromInline var bytes: [UInt8]
    @usableFromInline var columns: Int16 = 0
    @usableFromInline var failure: PostgresError?

    fileprivate init(into bytes: consuming [UInt8]) {
        self.bytes = bytes
    }

    fileprivate mutating func take() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &bytes)
        return taken
    }

    @inlinable
    package mutating func append<Value: PostgresValue>(_ value: Value) {
        guard value.isEncodable else { return refuse(Value.postgresType.name) }
        let count = value.postgresByteCount
        bytes.appendBinary(4 + count) { writer in
            writer.writeCount(count)
            value.encode(into: &writer)
        }
        columns += 1
    }

    /// nil is NULL.
    @inlinable
    package mutating func append<Value: PostgresValue>(_ value: Value?) {
        if let value { return append(value) }
        bytes.append(contentsOf: [0xFF, 0xFF, 0xFF, 0xFF])
        columns += 1
    }

    @usableFromInline
    mutating func refuse(_ type: String) {
        if failure == nil {
            failure = PostgresError(.encoding, "column \(columns) holds a NUL byte, which \(type) cannot hold")
        }
        columns += 1
    }
}

/// Encodes rows for `COPY … FROM STDIN (FORMAT binary)`.
package struct PostgresCopyEncoder {
    /// Signature, flags, and the length of the header's extension.
    private static let header: [UInt8] =
        Array("PGCOPY\n".utf8) + [0xFF] + Array("\r\n".utf8) + [0] + [0, 0, 0, 0, 0, 0, 0, 0]

    private var bytes = Self.header

    package init() {}

    /// Bytes that wait to be taken.
    package var byteCount: Int { bytes.count }

    /// Appends a row. When `encode` throws, nothing of the row stays.
    package mutating func append(_ encode: (inout PostgresCopyRow) throws -> Void) throws {
        let start = bytes.count
        var taken: [UInt8] = []
        swap(&taken, &bytes)
        taken.append(contentsOf: [0, 0])
        var row = PostgresCopyRow(into: taken)
        taken = []
        do {
            try encode(&row)
            if let failure = row.failure { throw failure }
        } catch {
            bytes = row.take()
            bytes.removeLast(bytes.count - start)
            throw error
        }
        bytes = row.take()
        bytes[start] = UInt8(truncatingIfNeeded: row.columns >> 8)
        bytes[start + 1] = UInt8(truncatingIfNeeded: row.columns)
    }

    /// Takes what was encoded so far.
    package mutating func take() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &bytes)
        return taken
    }

    /// Takes the rest, with the end mark.
    package mutating func finish() -> [UInt8] {
        take() + [0xFF, 0xFF]
    }
}
