import CLibpq

extension ConnectionDriver {
    /// Runs a text of one or several statements by the simple protocol, without their rows. BEGIN goes in front if the
    /// transaction has not begun.
    func simple(_ sql: String, in transaction: TransactionMark?) throws(PostgresError) {
        try checkUse(by: transaction)
        defer { finishCancel() }
        guard !sql.utf8.contains(0) else { throw PostgresError(.encoding, "the statement holds a NUL byte") }
        try dropPreparedIfAsked()
        let begins = begun == nil ? transaction : nil
        guard connection.sendSimple((begins == nil ? "" : TransactionMark.begin + ";\n") + sql) else { throw lost() }
        var failure: PostgresError?
        var value: String?
        do throws(PostgresError) {
            try readSimple(into: &failure, &value)
        } catch {
            let loss = failure ?? error
            let reason = loss.kind == .server ? loss.lostWithConnection : loss
            breakConnection(reason)
            throw reason.replacing(commitOutcomeUnknown: transaction == nil && failure == nil)
        }
        if let begins, connection.transactionStatus != PQTRANS_IDLE {
            begun = begins.id
            transactionFailure = failure
        } else if begun != nil, transactionFailure == nil {
            transactionFailure = failure
        }
        if let failure { throw failure }
        try checkIsOpen(transaction)
    }

    /// Id of the server process that runs a statement, by the simple protocol, which prepares nothing.
    ///
    /// - Parameter first: statement to run before, such as BEGIN.
    func backend(after first: String = "") throws(PostgresError) -> String {
        defer { finishCancel() }
        expectAnswers(to: 1)
        defer { expectNothing() }
        guard connection.sendSimple("\(first); SELECT pg_catalog.pg_backend_pid()") else { throw lost() }
        var (failure, value): (PostgresError?, String?)
        try readSimple(into: &failure, &value)
        if let failure { throw failure }
        guard let value else { throw PostgresError(.decoding, "the server names no process") }
        return value
    }

    /// Reads the results of the simple protocol until there are no more. Notes the first error of the server, and the
    /// first value of the last rows.
    private func readSimple(into failure: inout PostgresError?, _ value: inout String?) throws(PostgresError) {
        while true {
            let output = connection.flush()
            while !connection.isBusy {
                guard let result = connection.nextResult() else {
                    if connection.isLost { throw lost() }
                    deliverNotifications()
                    return
                }
                switch result.status {
                case PGRES_TUPLES_OK: value = result.firstText
                case PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: continue
                case PGRES_FATAL_ERROR:
                    let error = self.error(of: result)
                    if connection.isLost, error.sqlState == nil { throw lost() }
                    failure = failure ?? error
                default: throw refuseCopy()
                }
            }
            if connection.isLost || output == .failed { throw lost() }
            try step(hasOutput: output == .more)
        }
    }

    /// Gives up the connection: the server waits for the data of a COPY.
    func refuseCopy() -> PostgresError {
        let error = PostgresError(.misuse, "COPY is not supported")
        breakConnection(error)
        return error
    }
}
