extension PostgresConnection {
    /// Chunks are gathered up to this size before they are handed to the connection's thread.
    private static let copyChunk = 1 << 16

    /// Runs `COPY … FROM STDIN (FORMAT binary)`; `encode` appends each element's columns to its row.
    /// - Returns: The number of rows.
    /// - Throws: What `encode` threw, after the COPY was given up; or a ``PostgresError``.
    package func copyIn<Elements: Sequence>(
        _ sql: String, rows elements: Elements,
        encode: (Elements.Element, inout PostgresCopyRow) throws -> Void
    ) async throws -> Int {
        try await copyIn(sql) { write in
            var row = PostgresCopyRow()
            for element in elements {
                try row.append { row in try encode(element, &row) }
                if row.bytes.count >= Self.copyChunk { try await write(row.take()) }
            }
            try await write(row.take() + PostgresCopyRow.end)
        }
    }

    /// Runs `COPY … FROM STDIN`; `body` writes the data, cut at any boundary. Each write returns once the server, or the
    /// socket, has taken what was written before.
    /// - Returns: The number of rows.
    /// - Throws: What `body` threw, after the COPY was given up; or a ``PostgresError``.
    package func copyIn(
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
            // A sequence may end early when its reader is cancelled: the rows so far must not be committed as complete.
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
        // A huge chunk is sent in parts, since libpq buffers what it cannot send at once.
        while !rest.isEmpty {
            let part = Array(rest.prefix(16 * Self.copyChunk))
            rest = rest.dropFirst(part.count)
            try await loan.thread.perform { driver throws(PostgresError) in
                try driver.copy(part)
            }
        }
    }
}

/// Encodes rows of a binary COPY: the columns of each, in order.
@usableFromInline
package struct PostgresCopyRow {
    /// Signature, flags, and the length of the header's extension.
    private static let header: [UInt8] =
        Array("PGCOPY\n".utf8) + [0xFF] + Array("\r\n".utf8) + [0] + [0, 0, 0, 0, 0, 0, 0, 0]

    fileprivate static let end: [UInt8] = [0xFF, 0xFF]

    @usableFromInline var bytes = Self.header
    @usableFromInline var columns: Int16 = 0
    private var failure: PostgresError?

    fileprivate init() {}

    /// Takes the bytes so far.
    fileprivate mutating func take() -> [UInt8] {
        defer { bytes = [] }
        return bytes
    }

    /// Appends a row. When `encode` throws, nothing of the row stays.
    fileprivate mutating func append(_ encode: (inout PostgresCopyRow) throws -> Void) throws {
        let start = bytes.count
        columns = 0
        failure = nil
        bytes += [0, 0]
        do {
            try encode(&self)
            if let failure { throw failure }
        } catch {
            bytes.removeLast(bytes.count - start)
            throw error
        }
        bytes[start] = UInt8(truncatingIfNeeded: columns >> 8)
        bytes[start + 1] = UInt8(truncatingIfNeeded: columns)
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
