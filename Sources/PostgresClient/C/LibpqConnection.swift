// SPDX-License-Identifier: Apache-2.0

import CLibpq
import Logging
import Synchronization
import Waiting

/// Owns a `PGconn`: used on its connection's thread only, and closed once, here.
@safe
struct LibpqConnection: ~Copyable {
    private let connection: OpaquePointer

    /// Begins to connect, without waiting. Later keywords override earlier ones, and a `dbname` may be a whole
    /// connection string.
    init(connecting parameters: [(keyword: String, value: String)]) throws(PostgresError) {
        let started = unsafe withCStrings(parameters.map(\.keyword)) { keywords in
            unsafe withCStrings(parameters.map(\.value)) { values in
                unsafe PQconnectStartParams(keywords, values, 1)
            }
        }
        guard let started = unsafe started else { throw PostgresError(.connection, "out of memory") }
        unsafe self.connection = unsafe started
        // The only way to learn the SQLSTATE of a refused connection.
        unsafe PQsetErrorVerbosity(connection, PQERRORS_VERBOSE)
    }

    deinit {
        unsafe PQfinish(connection)
    }

    func connectPoll() -> PostgresPollingStatusType {
        unsafe PQstatus(connection) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PQconnectPoll(connection)
    }

    /// After the connection is made: never waits from here on, and errors read as usual.
    func makeNonBlocking() -> Bool {
        unsafe PQsetErrorVerbosity(connection, PQERRORS_DEFAULT)
        return unsafe PQsetnonblocking(connection, 1) == 0
    }

    var socket: Int32 { unsafe PQsocket(connection) }

    /// Server process that the login has named.
    var namedProcess: Int32 { unsafe PQbackendPID(connection) }

    var isLost: Bool { unsafe PQstatus(connection) == CONNECTION_BAD }

    /// The server asked for a password, and there was none.
    var lacksPassword: Bool { unsafe PQconnectionNeedsPassword(connection) != 0 }

    var transactionStatus: PGTransactionStatusType { unsafe PQtransactionStatus(connection) }

    var errorMessage: String { unsafe Self.oneLine(PQerrorMessage(connection)) }

    static func oneLine(_ text: UnsafePointer<CChar>?) -> String {
        guard let text = unsafe text else { return "" }
        return unsafe String(cString: text).split(separator: "\n").map { line in
            String(line.drop { $0.isWhitespace })
        }.joined(separator: "; ")
    }

    /// Lends the connection to a C call of this folder.
    func withPointer<Result>(_ body: (OpaquePointer) -> Result) -> Result {
        unsafe body(connection)
    }
}

extension LibpqConnection {
    /// Sends what it can without waiting. Answers whether some is left; nil when the connection is lost.
    func flush() -> Bool? {
        let left = unsafe PQflush(connection)
        return left < 0 ? nil : left > 0
    }

    /// Reads what has arrived; false when the connection is lost.
    func consumeInput() -> Bool { unsafe PQconsumeInput(connection) == 1 }

    /// Whether the next result is still under way.
    var isBusy: Bool { unsafe PQisBusy(connection) == 1 }

    /// The next result; nil ends a statement's results. Never waits while not ``isBusy``.
    func nextResult() -> LibpqResult? {
        guard let result = unsafe PQgetResult(connection) else { return nil }
        return unsafe LibpqResult(owning: result)
    }

    func enterPipeline() -> Bool { unsafe PQenterPipelineMode(connection) == 1 }

    func exitPipeline() -> Bool { unsafe PQexitPipelineMode(connection) == 1 }

    func sendSync() -> Bool { unsafe PQpipelineSync(connection) == 1 }

    /// The simple protocol: several statements in one text.
    func sendSimple(_ sql: String) -> Bool { unsafe PQsendQuery(connection, sql) == 1 }

    /// A statement without parameters in a pipeline.
    func sendPlain(_ sql: String) -> Bool {
        unsafe PQsendQueryParams(connection, sql, 0, nil, nil, nil, nil, 1) == 1
    }

    func sendPrepare(name: String, sql: String, types: [UInt32]) -> Bool {
        unsafe types.withUnsafeBufferPointer { types in
            unsafe PQsendPrepare(connection, name, sql, Int32(types.count), types.baseAddress) == 1
        }
    }

    /// Parameters and results are binary. libpq copies the parameters before it returns.
    func sendExecute(name: String, parameters: PostgresParameters) -> Bool {
        let fields = parameters.fields
        let lengths = fields.map { Int32($0.count) }
        let formats = [Int32](repeating: 1, count: fields.count)
        return unsafe parameters.bytes.withUnsafeBytes { bytes in
            let base = unsafe bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            let values = unsafe fields.map { field -> UnsafePointer<CChar>? in
                unsafe field.count < 0 ? nil : base.map { unsafe $0 + field.offset }
            }
            return unsafe PQsendQueryPrepared(connection, name, Int32(fields.count), values, lengths, formats, 1) == 1
        }
    }

    /// A notification that has arrived, if any.
    func nextNotification() -> (channel: String, payload: String)? {
        guard let notification = unsafe PQnotifies(connection) else { return nil }
        defer { unsafe PQfreemem(notification) }
        return unsafe (String(cString: notification.pointee.relname), String(cString: notification.pointee.extra))
    }
}

/// Lends an array of C strings that ends with nil.
private func withCStrings<Result>(
    _ strings: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result
) -> Result {
    // All texts one after the other, each with its NUL; then the addresses of their beginnings.
    var bytes: [CChar] = []
    var offsets: [Int] = []
    for string in strings {
        offsets.append(bytes.count)
        bytes.append(contentsOf: string.utf8CString)
    }
    return unsafe bytes.withUnsafeBufferPointer { buffer in
        let pointers = unsafe offsets.map { offset in unsafe buffer.baseAddress.map { unsafe $0 + offset } } + [nil]
        return unsafe pointers.withUnsafeBufferPointer { unsafe body($0.baseAddress) }
    }
}

/// One request to cancel what a connection's server process is doing.
///
/// `PQcancel` opens a connection and waits for its end, so it runs on a thread of its own. When it has ended, the
/// server has signalled the process: what is sent afterwards is safe from the request.
///
/// `@unchecked Sendable`: the pointer is made on the connection's thread, and used by the one thread that `start`
/// makes; the last reference frees it, in `deinit`.
@safe
final class LibpqCancel: @unchecked Sendable {
    private let cancel: OpaquePointer
    private let ended = Atomic<Bool>(false)

    init?(of connection: borrowing LibpqConnection) {
        guard let cancel = unsafe connection.withPointer({ unsafe PQgetCancel($0) }) else { return nil }
        unsafe self.cancel = unsafe cancel
    }

    deinit {
        unsafe PQfreeCancel(cancel)
    }

    var hasEnded: Bool { ended.load(ordering: .acquiring) }

    /// Sends the request; wakes `wakeUp` when done. Call once.
    func start(waking wakeUp: WakeUp) {
        do throws(BlockingThread.Failure) {
            try BlockingThread.run("pg-cancel") {
                // The result does not matter: the statement ends, or the cancel time-out ends the connection.
                unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { message in
                    _ = unsafe PQcancel(self.cancel, message.baseAddress, 256)
                }
                self.ended.store(true, ordering: .releasing)
                wakeUp.signal()
            }
        } catch {
            // Nothing is sent, as if the server did not answer.
            ended.store(true, ordering: .releasing)
        }
    }
}

/// Hands the server's notices to the logger. Owned by the driver, next to the connection that calls it.
final class LibpqNotices {
    let logger: Logger
    /// Why the server ended the session, when it said so between two calls, as a notice.
    private(set) var fatal: PostgresError?

    init(logger: Logger) {
        self.logger = logger
    }

    /// The driver owns both, and closes the connection first: the connection's unretained reference to this object
    /// never outlives it. libpq calls back on the thread that uses the connection.
    func attach(to connection: borrowing LibpqConnection) {
        unsafe connection.withPointer { pointer in
            _ = unsafe PQsetNoticeReceiver(
                pointer,
                { context, result in
                    guard let context = unsafe context else { return }
                    unsafe Unmanaged<LibpqNotices>.fromOpaque(context).takeUnretainedValue().receive(result)
                }, Unmanaged.passUnretained(self).toOpaque())
        }
    }

    private func receive(_ result: OpaquePointer?) {
        let severity = unsafe LibpqResult.field("V", of: result) ?? "NOTICE"
        let level: Logger.Level =
            switch severity {
            case "WARNING", "ERROR", "FATAL", "PANIC": .warning
            case "INFO", "NOTICE": .info
            default: .debug
            }
        let message = unsafe LibpqResult.field("M", of: result) ?? ""
        let state = unsafe LibpqResult.field("C", of: result) ?? ""
        if severity == "FATAL" || severity == "PANIC" {
            fatal = PostgresError(.connection, message, sqlState: state)
        }
        logger.log(
            level: level, "PostgreSQL: \(message)", metadata: ["severity": "\(severity)", "sqlstate": "\(state)"])
    }
}

/// Owns a `PGresult`: made by `PQgetResult`, freed once, here.
@safe
@usableFromInline
package struct LibpqResult: ~Copyable {
    private let result: OpaquePointer

    init(owning result: OpaquePointer) {
        unsafe self.result = unsafe result
    }

    deinit {
        unsafe PQclear(result)
    }

    var status: ExecStatusType { unsafe PQresultStatus(result) }

    @usableFromInline var rowCount: Int { Int(unsafe PQntuples(result)) }

    /// Tag of the completed command, such as `INSERT 0 3`.
    var commandStatus: String { unsafe PQcmdStatus(result).map { unsafe String(cString: $0) } ?? "" }

    /// Rows that the command wrote or selected; 0 where that means nothing.
    var affected: Int { unsafe PQcmdTuples(result).flatMap { unsafe Int(String(cString: $0)) } ?? 0 }

    /// First value of the first row, as text; nil without rows.
    var firstText: String? {
        guard rowCount > 0 else { return nil }
        return unsafe PQgetvalue(result, 0, 0).map { unsafe String(cString: $0) }
    }

    @usableFromInline
    func forEachRow(_ body: (borrowing PostgresRow) throws(PostgresError) -> Void) throws(PostgresError) {
        var columns = unsafe ResultColumns(of: result)
        try unsafe withUnsafeMutablePointer(to: &columns) { columns throws(PostgresError) in
            for index in 0..<Int32(rowCount) {
                try body(unsafe PostgresRow(of: result, at: index, columns: columns))
            }
        }
    }

    // Inlinable, so that the values of rows are read without generic code.
    @inlinable
    func rows<Row>(_ read: (borrowing PostgresRow) throws -> Row) throws(PostgresError) -> [Row] {
        var rows: [Row] = []
        rows.reserveCapacity(rowCount)
        try forEachRow { row throws(PostgresError) in
            do { rows.append(try read(row)) } catch { throw PostgresError(decoding: error) }
        }
        return rows
    }

    /// Calls `append` for each row of the result. It adds a new element or changes the last one.
    @inlinable
    func gatheredRows<Row>(
        by append: (borrowing PostgresRow, inout [Row]) throws -> Void
    ) throws(PostgresError) -> [Row] {
        var rows: [Row] = []
        try forEachRow { row throws(PostgresError) in
            do { try append(row, &rows) } catch { throw PostgresError(decoding: error) }
        }
        return rows
    }

    /// The error or notice that this result is.
    func error(_ kind: PostgresError.Kind) -> PostgresError {
        func field(_ code: Unicode.Scalar) -> String? { unsafe Self.field(code, of: result) }
        let message = unsafe field("M") ?? LibpqConnection.oneLine(PQresultErrorMessage(result))
        return PostgresError(
            kind, message, sqlState: field("C"), detail: field("D"), hint: field("H"), constraint: field("n"))
    }

    /// A part of an error or notice, by the letter of PostgreSQL's protocol: V severity, C SQLSTATE, M message, D
    /// detail, H hint, n constraint. libpq's own names are character macros, which Swift does not import.
    static func field(_ code: Unicode.Scalar, of result: OpaquePointer?) -> String? {
        unsafe PQresultErrorField(result, Int32(code.value)).map { unsafe String(cString: $0) }
    }
}
