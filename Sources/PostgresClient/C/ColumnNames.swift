import CLibpq

/// Positions of a result's columns by name.
///
/// Look-ups are remembered by the address of the literal that names the column, so that after a result's first row each
/// costs a comparison of addresses. Used on the connection's thread only, for as long as the result is lent.
@safe
@usableFromInline
final class ColumnNames {
    private let result: OpaquePointer
    private var known: [(address: UInt, column: Int)] = []
    /// Position in `known` after the latest hit: columns are mostly read in one order.
    private var next = 0

    init(of result: OpaquePointer) {
        unsafe self.result = unsafe result
    }

    /// Position of the column; nil when the result has none of that name.
    func column(_ name: StaticString) -> Int? {
        let address = unsafe UInt(bitPattern: name.utf8Start)
        for _ in 0..<known.count {
            if next >= known.count { next = 0 }
            let candidate = known[next]
            next += 1
            if candidate.address == address { return candidate.column }
        }
        for column in 0..<(unsafe PQnfields(result)) {
            guard let found = unsafe PQfname(result, column) else { continue }
            guard unsafe String(cString: found) == name.description else { continue }
            known.append((address, Int(column)))
            next = known.count
            return Int(column)
        }
        return nil
    }
}

extension PostgresRow {
    /// Position of a column.
    /// - Throws: `.decoding` when the result has no column of that name.
    @usableFromInline
    func position(_ name: StaticString) throws(PostgresError) -> Int {
        guard let column = names.column(name) else {
            throw PostgresError(.decoding, "the result has no column \"\(name)\"")
        }
        return column
    }

    /// The value of a named column that is not NULL.
    /// - Throws: `.decoding`, naming the column, when it is NULL, missing, or not of a type that `Value` reads.
    @inlinable
    package func value<Value: PostgresValue>(
        _ name: StaticString, as type: Value.Type = Value.self
    ) throws(PostgresError) -> Value {
        try value(position(name), as: type)
    }

    /// The value of a named column, nil when it is NULL.
    @inlinable
    package func optional<Value: PostgresValue>(
        _ name: StaticString, as type: Value.Type = Value.self
    ) throws(PostgresError) -> Value? {
        try optional(position(name), as: type)
    }

    /// The elements of a named column's array, which neither is nor holds NULL.
    @inlinable
    package func array<Value: PostgresValue>(
        _ name: StaticString, of type: Value.Type = Value.self
    ) throws(PostgresError) -> [Value] {
        try array(position(name), of: type)
    }

    /// As ``array(_:of:)-(StaticString,_)``, nil when the column is NULL.
    @inlinable
    package func optionalArray<Value: PostgresValue>(
        _ name: StaticString, of type: Value.Type = Value.self
    ) throws(PostgresError) -> [Value]? {
        try optionalArray(position(name), of: type)
    }

    /// As ``array(_:of:)-(StaticString,_)``, where elements may be NULL.
    @inlinable
    package func arrayOfOptionals<Value: PostgresValue>(
        _ name: StaticString, of type: Value.Type = Value.self
    ) throws(PostgresError) -> [Value?] {
        try arrayOfOptionals(position(name), of: type)
    }
}
