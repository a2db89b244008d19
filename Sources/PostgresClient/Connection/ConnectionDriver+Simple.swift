import CLibpq

/// The simple protocol, and COPY, which pipelines cannot hold.
extension ConnectionDriver {
    /// Runs a text of one or several statements, without their rows.
    func simple(_ sql: String, in transaction: TransactionMark?) throws(PostgresError) {
        try checkUse(by: transaction)
        defer { finishCancel() }
        let begins = try sendSimple(sql, in: transaction)
        var failure: PostgresError?
        do throws(PostgresError) {
            try readSimple { result throws(PostgresError) in
                switch result.status {
                case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY: break
                case PGRES_FATAL_ERROR:
                    let error = self.error(of: result)
                    if connection.isLost, error.sqlState == nil { throw lost() }
                    failure = failure ?? error
                default:
                    let error = PostgresError(.misuse, "COPY is not for simple statements: use copyIn")
                    breakConnection(error)
                    throw error
                }
                return true
            }
        } catch {
            throw outcome(ofLoss: failure ?? error, commits: transaction == nil && failure == nil)
        }
        settle(transaction, begins: begins, failure: failure)
        if let failure { throw failure }
        try checkIsOpen(transaction)
    }

    /// Starts `COPY … FROM STDIN`.
    func beginCopy(_ sql: String, in transaction: TransactionMark?) throws(PostgresError) {
        try checkUse(by: transaction)
        defer { finishCancel() }
        let begins = try sendSimple(sql, in: transaction)
        var failure: PostgresError?
        do throws(PostgresError) {
            try readSimple { result throws(PostgresError) in
                switch result.status {
                case PGRES_COPY_IN:
                    isCopying = true
                    return false
                case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY:
                    return true
                case PGRES_FATAL_ERROR:
                    let error = self.error(of: result)
                    if connection.isLost, error.sqlState == nil { throw lost() }
                    failure = failure ?? error
                    return true
                default:
                    let error = PostgresError(.misuse, "copyIn is for COPY … FROM STDIN only")
                    breakConnection(error)
                    throw error
                }
            }
        } catch {
            throw outcome(ofLoss: error, commits: false)
        }
        settle(transaction, begins: begins, failure: failure)
        if let failure { throw failure }
        if !isCopying { throw PostgresError(.misuse, "copyIn is for COPY … FROM STDIN") }
    }

    /// Sends data, and returns when the server, or the socket, has taken it.
    func copy(_ chunk: [UInt8]) throws(PostgresError) {
        defer { finishCancel() }
        if let brokenBecause { throw brokenBecause }
        guard isCopying else { throw PostgresError(.misuse, "no COPY is under way") }
        do throws(PostgresError) {
            try put { connection.putCopyData(chunk) }
            try flush()
        } catch {
            isCopying = false
            throw outcome(ofLoss: error, commits: false)
        }
    }

    /// Ends the data; answers the number of rows. With a reason, the COPY fails with it, and this returns 0.
    @discardableResult
    func endCopy(failing reason: String? = nil) throws(PostgresError) -> Int {
        defer { finishCancel() }
        if let brokenBecause { throw brokenBecause }
        guard isCopying else { return 0 }
        isCopying = false
        var rows = 0
        var failure: PostgresError?
        do throws(PostgresError) {
            try put { connection.putCopyEnd(failing: reason) }
            try readSimple { result throws(PostgresError) in
                switch result.status {
                case PGRES_FATAL_ERROR:
                    let error = self.error(of: result)
                    if connection.isLost, error.sqlState == nil { throw lost() }
                    failure = failure ?? error
                case PGRES_COPY_IN:
                    let error = PostgresError(.misuse, "one COPY at a time")
                    breakConnection(error)
                    throw error
                default:
                    rows = result.affected
                }
                return true
            }
        } catch {
            throw outcome(ofLoss: error, commits: begun == nil && failure == nil && reason == nil)
        }
        if let failure {
            if begun != nil, transactionFailure == nil { transactionFailure = failure }
            if reason == nil { throw failure }
        }
        return rows
    }

    /// Answers whether BEGIN was sent in front.
    private func sendSimple(_ sql: String, in transaction: TransactionMark?) throws(PostgresError) -> Bool {
        guard !sql.utf8.contains(0) else { throw PostgresError(.encoding, "the statement holds a NUL byte") }
        try dropPreparedIfAsked()
        var text = sql
        var begins = false
        if let transaction, begun == nil {
            text = transaction.begin + ";\n" + sql
            begins = true
        }
        guard connection.sendSimple(text) else { throw lost() }
        return begins
    }

    /// Reads the results of the simple protocol until `handle` answers false, or there are no more.
    private func readSimple(
        _ handle: (borrowing LibpqResult) throws(PostgresError) -> Bool
    ) throws(PostgresError) {
        while true {
            let output = connection.flush()
            while !connection.isBusy {
                guard let result = connection.nextResult() else {
                    if connection.isLost { throw lost() }
                    deliverNotifications()
                    return
                }
                if try !handle(result) { return }
            }
            if connection.isLost || output == .failed { throw lost() }
            try step(hasOutput: output == .more)
        }
    }

    private func put(_ attempt: () -> LibpqConnection.CopyProgress) throws(PostgresError) {
        while true {
            switch attempt() {
            case .accepted: return
            case .full: try step(hasOutput: true)
            case .failed: throw lost()
            }
        }
    }

    private func flush() throws(PostgresError) {
        while true {
            switch connection.flush() {
            case .done: return
            case .more: try step(hasOutput: true)
            case .failed: throw lost()
            }
        }
    }

    /// Keeps track of the transaction that the text may have begun.
    private func settle(_ transaction: TransactionMark?, begins: Bool, failure: PostgresError?) {
        if begins, let transaction, connection.transactionStatus != PQTRANS_IDLE || isCopying {
            begun = transaction.id
            transactionFailure = failure
        } else if begun != nil, transactionFailure == nil {
            transactionFailure = failure
        }
    }

    private func outcome(ofLoss error: PostgresError, commits: Bool) -> PostgresError {
        let error = error.kind == .server ? error.lostWithConnection : error
        breakConnection(error)
        return error.replacing(commitOutcomeUnknown: commits)
    }
}
