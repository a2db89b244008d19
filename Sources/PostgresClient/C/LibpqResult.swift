import CLibpq

/// Owns a `PGresult`: made by `PQgetResult`, freed once, here.
@safe
struct LibpqResult: ~Copyable {
    private let result: OpaquePointer

    init(owning result: OpaquePointer) {
        unsafe self.result = unsafe result
    }

    deinit {
        unsafe PQclear(result)
    }

    var status: ExecStatusType { unsafe PQresultStatus(result) }

    var rowCount: Int { Int(unsafe PQntuples(result)) }

    /// Tag of the completed command, such as `INSERT 0 3`.
    var commandStatus: String { unsafe PQcmdStatus(result).map { unsafe String(cString: $0) } ?? "" }

    /// Rows that the command wrote or selected; 0 where that means nothing.
    var affected: Int { unsafe PQcmdTuples(result).flatMap { unsafe Int(String(cString: $0)) } ?? 0 }

    /// First value of the first row, as text; nil without rows.
    var firstText: String? {
        guard rowCount > 0 else { return nil }
        return unsafe PQgetvalue(result, 0, 0).map { unsafe String(cString: $0) }
    }

    func forEachRow(_ body: (borrowing PostgresRow) throws(PostgresError) -> Void) throws(PostgresError) {
        let names = unsafe ColumnNames(of: result)
        for index in 0..<Int32(rowCount) {
            try body(unsafe PostgresRow(of: result, at: index, names: names))
        }
    }

    /// The error or notice that this result is.
    func error(_ kind: PostgresError.Kind) -> PostgresError {
        let message = unsafe field(.message) ?? LibpqConnection.oneLine(PQresultErrorMessage(result))
        return PostgresError(
            kind, message,
            sqlState: field(.sqlState), detail: field(.detail), hint: field(.hint), constraint: field(.constraint))
    }

    private func field(_ field: DiagnosticField) -> String? {
        unsafe Self.field(field, of: result)
    }

    static func field(_ field: DiagnosticField, of result: OpaquePointer?) -> String? {
        unsafe PQresultErrorField(result, field.code).map { unsafe String(cString: $0) }
    }
}

/// The parts of an error or notice. (libpq's own names are character macros, which Swift does not import.)
enum DiagnosticField: UInt8 {
    case severity = 0x56  // V
    case sqlState = 0x43  // C
    case message = 0x4D  // M
    case detail = 0x44  // D
    case hint = 0x48  // H
    case constraint = 0x6E  // n

    var code: Int32 { Int32(rawValue) }
}
