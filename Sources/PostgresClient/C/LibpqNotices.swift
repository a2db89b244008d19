import CLibpq
import Logging

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
        let severity = unsafe LibpqResult.field(.severity, of: result) ?? "NOTICE"
        let level: Logger.Level =
            switch severity {
            case "WARNING", "ERROR", "FATAL", "PANIC": .warning
            case "INFO", "NOTICE": .info
            default: .debug
            }
        let message = unsafe LibpqResult.field(.message, of: result) ?? ""
        let state = unsafe LibpqResult.field(.sqlState, of: result) ?? ""
        if severity == "FATAL" || severity == "PANIC" {
            fatal = PostgresError(.connection, message, sqlState: state)
        }
        logger.log(
            level: level, "PostgreSQL: \(message)", metadata: ["severity": "\(severity)", "sqlstate": "\(state)"])
    }
}
