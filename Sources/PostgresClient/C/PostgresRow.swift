// SPDX-License-Identifier: Apache-2.0

import CLibpq

/// One row of a result, read in place by the names of its columns.
///
/// Points into a result that outlives it: rows are only ever lent, for the length of `decode`.
@safe
@usableFromInline
package struct PostgresRow: ~Copyable {
    private let result: OpaquePointer
    private let index: Int32
    private let names: ColumnNames

    init(of result: OpaquePointer, at index: Int32, names: ColumnNames) {
        unsafe self.result = unsafe result
        self.index = index
        self.names = names
    }

    /// The value of a column that is not NULL.
    /// - Throws: `.decoding`, naming the column, when it is NULL, missing, or not of a type that `Value` reads.
    @inlinable
    package func value<Value: PostgresValue>(
        _ name: StaticString, as type: Value.Type = Value.self
    ) throws(PostgresError) -> Value {
        guard let value = try optional(name, as: type) else {
            throw mismatch(name, expected: Value.postgresType.name, found: "NULL")
        }
        return value
    }

    /// The value of a column, nil when it is NULL.
    @inlinable
    package func optional<Value: PostgresValue>(
        _ name: StaticString, as type: Value.Type = Value.self
    ) throws(PostgresError) -> Value? {
        let cell = try cell(name)
        guard Value.accepts(oid: cell.oid) else {
            throw mismatch(name, expected: Value.postgresType.name, found: PostgresType.name(ofOID: cell.oid))
        }
        guard !cell.isNull else { return nil }
        let bytes = unsafe RawSpan(_unsafeStart: cell.start, byteCount: cell.count)
        guard let value = Value(postgresBytes: bytes, oid: cell.oid) else {
            throw mismatch(name, expected: Value.postgresType.name, found: "a malformed value")
        }
        return value
    }

    /// The elements of a one-dimensional array that neither is nor holds NULL.
    @inlinable
    package func array<Value: PostgresValue>(
        _ name: StaticString, of type: Value.Type = Value.self
    ) throws(PostgresError) -> [Value] {
        guard let elements = try optionalArray(name, of: type) else {
            throw mismatch(name, expected: Value.postgresType.name + "[]", found: "NULL")
        }
        return elements
    }

    /// As ``array(_:of:)``, nil when the column is NULL.
    @inlinable
    package func optionalArray<Value: PostgresValue>(
        _ name: StaticString, of type: Value.Type = Value.self
    ) throws(PostgresError) -> [Value]? {
        try elements(name, of: type)?.map { value throws(PostgresError) in
            guard let value else {
                throw mismatch(name, expected: Value.postgresType.name + "[]", found: "a NULL element")
            }
            return value
        }
    }

    /// The elements of a one-dimensional array in which elements may be NULL.
    @inlinable
    package func arrayOfOptionals<Value: PostgresValue>(
        _ name: StaticString, of type: Value.Type = Value.self
    ) throws(PostgresError) -> [Value?] {
        guard let elements = try elements(name, of: type) else {
            throw mismatch(name, expected: Value.postgresType.name + "[]", found: "NULL")
        }
        return elements
    }
}

extension PostgresRow {
    /// Where a column's bytes are: inside the result, for as long as the row is lent.
    @safe
    @usableFromInline
    struct Cell {
        @usableFromInline let start: UnsafeRawPointer
        @usableFromInline let count: Int
        @usableFromInline let oid: UInt32
        @usableFromInline let isNull: Bool

        init(start: UnsafeRawPointer, count: Int, oid: UInt32, isNull: Bool) {
            unsafe self.start = unsafe start
            self.count = count
            self.oid = oid
            self.isNull = isNull
        }
    }

    @usableFromInline
    func cell(_ name: StaticString) throws(PostgresError) -> Cell {
        guard let column = names.column(name), let value = unsafe PQgetvalue(result, index, column) else {
            throw PostgresError(.decoding, "the result has no column \"\(name)\"")
        }
        return unsafe Cell(
            start: UnsafeRawPointer(value), count: Int(PQgetlength(result, index, column)),
            oid: PQftype(result, column), isNull: PQgetisnull(result, index, column) != 0)
    }

    @usableFromInline
    func mismatch(_ name: StaticString, expected: String, found: String) -> PostgresError {
        PostgresError(.decoding, "column \"\(name)\": expected \(expected), found \(found)")
    }

    /// The elements of a one-dimensional array; nil when the column is NULL.
    @inlinable
    func elements<Value: PostgresValue>(
        _ name: StaticString, of type: Value.Type
    ) throws(PostgresError) -> [Value?]? {
        let expected = { Value.postgresType.name + "[]" }
        let cell = try cell(name)
        guard cell.oid == Value.postgresType.arrayOID || isArray(cell.oid, of: type) else {
            throw mismatch(name, expected: expected(), found: PostgresType.name(ofOID: cell.oid))
        }
        guard !cell.isNull else { return nil }
        let bytes = unsafe RawSpan(_unsafeStart: cell.start, byteCount: cell.count)
        guard bytes.byteCount >= 12 else { throw mismatch(name, expected: expected(), found: "a malformed array") }
        let dimensions: Int32 = bytes.postgresInteger()
        let elementOID: UInt32 = bytes.postgresInteger(at: 8)
        guard dimensions != 0 else { return [] }
        guard dimensions == 1, bytes.byteCount >= 20, Value.accepts(oid: elementOID) else {
            throw mismatch(name, expected: expected(), found: "an array of \(dimensions) dimensions")
        }
        let count = Int(bytes.postgresInteger(at: 12, as: Int32.self))
        var elements: [Value?] = []
        elements.reserveCapacity(min(max(count, 0), bytes.byteCount / 4))
        var offset = 20
        for _ in 0..<max(count, 0) {
            guard bytes.byteCount - offset >= 4 else {
                throw mismatch(name, expected: expected(), found: "a malformed array")
            }
            let size = Int(bytes.postgresInteger(at: offset, as: Int32.self))
            offset += 4
            guard size >= 0 else {
                elements.append(nil)
                continue
            }
            guard bytes.byteCount - offset >= size,
                let value = Value(
                    postgresBytes: bytes.extracting(offset..<offset + size), oid: elementOID)
            else {
                throw mismatch(name, expected: expected(), found: "a malformed element")
            }
            elements.append(value)
            offset += size
        }
        return elements
    }

    /// Whether the type is an array of something that `Value` reads, such as varchar[] for `String`.
    @usableFromInline
    func isArray<Value: PostgresValue>(_ oid: UInt32, of type: Value.Type) -> Bool {
        PostgresType.elementOID(ofArray: oid).map { Value.accepts(oid: $0) } ?? false
    }
}

/// Positions of a result's columns by name.
///
/// Positions are cached by the address of the literal that names the column, so that after the first row a look-up
/// compares addresses. Used on the connection's thread only, while the result is lent.
@safe
final class ColumnNames {
    private let result: OpaquePointer
    private var known: [(address: UInt, column: Int32)] = []
    /// Position in `known` after the latest hit: columns are mostly read in one order.
    private var next = 0

    init(of result: OpaquePointer) {
        unsafe self.result = unsafe result
    }

    private static func isEqual(_ text: UnsafePointer<CChar>, _ name: StaticString) -> Bool {
        name.withUTF8Buffer { bytes in
            // Ends at the zero of a shorter text, which differs.
            for index in bytes.indices where unsafe UInt8(bitPattern: text[index]) != bytes[index] { return false }
            return unsafe text[bytes.count] == 0
        }
    }

    /// Position of the column; nil when the result has none of that name.
    func column(_ name: StaticString) -> Int32? {
        let address = unsafe UInt(bitPattern: name.utf8Start)
        for _ in 0..<known.count {
            if next >= known.count { next = 0 }
            let candidate = known[next]
            next += 1
            if candidate.address == address { return candidate.column }
        }
        let count = unsafe PQnfields(result)
        // Behind the column that was found last: columns are mostly read in the order of the select list.
        let first = (known.last?.column ?? -1) + 1
        for step in 0..<count {
            let column = (first + step) % count
            guard let found = unsafe PQfname(result, column) else { continue }
            guard unsafe Self.isEqual(found, name) else { continue }
            known.append((address, column))
            next = known.count
            return column
        }
        return nil
    }
}
