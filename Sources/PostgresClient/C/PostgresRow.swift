// SPDX-License-Identifier: Apache-2.0

import CLibpq
import Glibc

/// One row of a result, read in place by the names of its columns.
///
/// Points into a result that outlives it: rows are only ever lent, for the length of `decode`.
@safe
@usableFromInline
package struct PostgresRow: ~Copyable {
    private let result: OpaquePointer
    private let index: Int32
    private let columns: UnsafeMutablePointer<ResultColumns>

    init(of result: OpaquePointer, at index: Int32, columns: UnsafeMutablePointer<ResultColumns>) {
        unsafe self.result = unsafe result
        self.index = index
        unsafe self.columns = unsafe columns
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

    /// A text that is often the same in consecutive rows; it is decoded once then.
    package func repeatedText(_ name: StaticString) throws(PostgresError) -> String {
        guard let text = try optionalRepeatedText(name) else {
            throw mismatch(name, expected: String.postgresType.name, found: "NULL")
        }
        return text
    }

    /// As ``repeatedText(_:)``, nil when it is NULL.
    package func optionalRepeatedText(_ name: StaticString) throws(PostgresError) -> String? {
        let cell = try cell(name)
        guard String.accepts(oid: cell.oid) else {
            throw mismatch(name, expected: String.postgresType.name, found: PostgresType.name(ofOID: cell.oid))
        }
        guard !cell.isNull else { return nil }
        guard let text = unsafe columns.pointee.text(cell) else {
            throw mismatch(name, expected: String.postgresType.name, found: "a malformed value")
        }
        return text
    }

    /// Passes the bytes of a bytea column to `read` and returns its result; nil when the column is NULL.
    @inlinable
    package func optional<Value>(
        _ name: StaticString, read: (Span<UInt8>) -> Value
    ) throws(PostgresError) -> Value? {
        let cell = try cell(name)
        guard cell.oid == PostgresType.bytea.oid else {
            throw mismatch(name, expected: PostgresType.bytea.name, found: PostgresType.name(ofOID: cell.oid))
        }
        guard !cell.isNull else { return nil }
        let bytes = unsafe UnsafeRawBufferPointer(start: cell.start, count: cell.count)
        return unsafe read(Span(_unsafeBytes: bytes))
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
        let position: Int32
        @usableFromInline let isNull: Bool

        init(start: UnsafeRawPointer, count: Int, column: ResultColumns.Column, isNull: Bool) {
            unsafe self.start = unsafe start
            self.count = count
            (oid, position) = (column.oid, column.position)
            self.isNull = isNull
        }
    }

    @usableFromInline
    func cell(_ name: StaticString) throws(PostgresError) -> Cell {
        guard let column = unsafe columns.pointee.find(name),
            let value = unsafe PQgetvalue(result, index, column.position)
        else { throw missing(name) }
        let count = unsafe PQgetlength(result, index, column.position)
        // NULL has no bytes.
        let isNull = unsafe count == 0 && PQgetisnull(result, index, column.position) != 0
        return unsafe Cell(start: UnsafeRawPointer(value), count: Int(count), column: column, isNull: isNull)
    }

    @inline(never)
    private func missing(_ name: StaticString) -> PostgresError {
        PostgresError(.decoding, "the result has no column \"\(name)\"")
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

/// Columns of a result by name.
///
/// A name is compared as text once a result. A hash table then has the column by the address of the literal that named
/// it.
@safe
struct ResultColumns: ~Copyable {
    struct Column {
        /// 0: a free place.
        var literal: UInt = 0
        var position: Int32 = 0
        var oid: UInt32 = 0
        /// Place of the column that was read after this one.
        var following: Int32 = 0
    }

    /// A text that was read last of a column.
    @safe
    private struct Text {
        let position: Int32
        /// In the result.
        let start: UnsafeRawPointer
        let count: Int
        let text: String
    }

    private let result: OpaquePointer
    /// With free places, so that each search ends.
    private let table: UnsafeMutableBufferPointer<Column>
    /// Bits of a hash that are not its place.
    private let shift: UInt64
    /// Number of columns that may still be added: half of the places stay free. Further literals are compared as text
    /// each time.
    private var free: Int
    /// Column behind the one that was found last: most are read first in the order of the select list.
    private var next: Int32 = 0
    /// Place of the column that was read last.
    private var last = 0
    /// The last texts of the columns that ``PostgresRow/repeatedText(_:)`` reads.
    private var texts: [Text] = []

    init(of result: OpaquePointer) {
        unsafe self.result = unsafe result
        let bits = unsafe UInt64(64 - (2 * Int(PQnfields(result))).leadingZeroBitCount)
        shift = 64 - max(1, bits)
        unsafe table = .allocate(capacity: 1 << max(1, bits))
        unsafe table.initialize(repeating: Column())
        free = unsafe table.count / 2
    }

    deinit {
        unsafe table.deallocate()
    }

    /// The column of a name; nil when the result has none.
    @inline(__always)
    mutating func find(_ name: StaticString) -> Column? {
        // Each row is read in the same order, so this is mostly the column that followed in the row before.
        let place = unsafe Int(table[last].following)
        let column = unsafe table[place]
        guard unsafe column.literal == UInt(bitPattern: name.utf8Start) else { return search(name) }
        last = place
        return column
    }

    /// As ``find(_:)``, of a column that is read in another order than before.
    @inline(never)
    private mutating func search(_ name: StaticString) -> Column? {
        let literal = unsafe UInt(bitPattern: name.utf8Start)
        // Fibonacci hashing: the upper bits of the product depend on all bits of the address.
        var place = Int(truncatingIfNeeded: (UInt64(literal) &* 0x9E37_79B9_7F4A_7C15) >> shift)
        while true {
            let column = unsafe table[place]
            if column.literal == literal {
                follow(place)
                return column
            }
            if column.literal == 0 { break }
            place = unsafe (place + 1) & (table.count - 1)
        }
        guard let position = position(of: name) else { return nil }
        next = position + 1
        let column = unsafe Column(literal: literal, position: position, oid: PQftype(result, position))
        if free > 0 {
            free -= 1
            unsafe table[place] = column
            follow(place)
        }
        return column
    }

    /// Notes that the column at a place was read after the last one.
    private mutating func follow(_ place: Int) {
        unsafe table[last].following = Int32(truncatingIfNeeded: place)
        last = place
    }

    /// The text of a cell, which is decoded if it differs from the last one of the column; nil if it is malformed.
    mutating func text(_ cell: PostgresRow.Cell) -> String? {
        let known = texts.firstIndex { $0.position == cell.position }
        if let known, texts[known].count == cell.count,
            unsafe memcmp(texts[known].start, cell.start, cell.count) == 0
        {
            return texts[known].text
        }
        let bytes = unsafe RawSpan(_unsafeStart: cell.start, byteCount: cell.count)
        guard let text = String(postgresBytes: bytes, oid: cell.oid) else { return nil }
        let last = unsafe Text(position: cell.position, start: cell.start, count: cell.count, text: text)
        if let known { texts[known] = last } else { texts.append(last) }
        return text
    }

    private func position(of name: StaticString) -> Int32? {
        let count = unsafe PQnfields(result)
        for step in 0..<count {
            let position = (next + step) % count
            if let found = unsafe PQfname(result, position), unsafe Self.isEqual(found, name) { return position }
        }
        return nil
    }

    private static func isEqual(_ text: UnsafePointer<CChar>, _ name: StaticString) -> Bool {
        name.withUTF8Buffer { bytes in
            // Ends at the zero of a shorter text, which differs.
            for index in bytes.indices where unsafe UInt8(bitPattern: text[index]) != bytes[index] { return false }
            return unsafe text[bytes.count] == 0
        }
    }
}
