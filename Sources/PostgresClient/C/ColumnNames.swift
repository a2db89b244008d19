import CLibpq

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

    /// Position of the column; nil when the result has none of that name.
    func column(_ name: StaticString) -> Int32? {
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
            known.append((address, column))
            next = known.count
            return column
        }
        return nil
    }
}
