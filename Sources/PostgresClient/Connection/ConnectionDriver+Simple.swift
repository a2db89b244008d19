import CLibpq

/// The simple protocol, and COPY, which pipelines cannot hold.
extension ConnectionDriver {
    /// Runs a text of one or several statements, without their rows.
    func simple(_ sql: String, in transaction: TransactionMark?) throws(PostgresError) {
        try runSimple(
            sql, in: transaction, commits: transaction == nil,
            otherwise: "COPY is not for simple statements: use copyIn"
        ) { _ in nil }
        try checkIsOpen(transaction)
    }

    /// Starts `COPY … FROM STDIN`.
    func beginCopy(_ sql: String, in transaction: TransactionMark?) throws(PostgresError) {
        try runSimple(
            sql, in: transaction, commits: false, otherwise: "copyIn is for COPY … FROM STDIN only"
        ) { status in
            guard status == PGRES_COPY_IN else { return nil }
            isCopying = true
            return false
        }
        if !isCopying { throw PostgresError(.misuse, "copyIn is for COPY … FROM STDIN") }
    }

    /// Sends a text, with BEGIN in front if the transaction has not begun, and reads its results as ``readSimple``.
    private func runSimple(
        _ sql: String, in transaction: TransactionMark?, commits: Bool, otherwise misuse: String,
        _ handle: (ExecStatusType) -> Bool?
    ) throws(PostgresError) {
        try checkUse(by: transaction)
        defer { finishCancel() }
        let begins = try sendSimple(sql, in: transaction)
        var failure: PostgresError?
        do throws(PostgresError) {
            try readSimple(into: &failure, otherwise: misuse) { result in handle(result.status) }
        } catch {
            throw outcome(ofLoss: failure ?? error, commits: commits && failure == nil)
        }
        settle(transaction, begins: begins, failure: failure)
        if let failure { throw failure }
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
            try readSimple(into: &failure, otherwise: "one COPY at a time") { result in
                if result.status == PGRES_COPY_IN { return nil }
                rows = result.affected
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

    /// Reads the results of the simple protocol until there are no more, and notes the first error of the server.
    ///
    /// - Parameters:
    ///   - misuse: Message of the error that ends the connection when a result is of neither sort.
    ///   - handle: Answers whether to go on; nil for a result that only completes a command, or does not belong here.
    private func readSimple(
        into failure: inout PostgresError?, otherwise misuse: String, _ handle: (borrowing LibpqResult) -> Bool?
    ) throws(PostgresError) {
        while true {
            let output = connection.flush()
            while !connection.isBusy {
                guard let result = connection.nextResult() else {
                    if connection.isLost { throw lost() }
                    deliverNotifications()
                    return
                }
                if result.status == PGRES_FATAL_ERROR {
                    let error = self.error(of: result)
                    if connection.isLost, error.sqlState == nil { throw lost() }
                    failure = failure ?? error
                    continue
                }
                if let goesOn = handle(result) {
                    if goesOn { continue }
                    return
                }
                switch result.status {
                case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY: continue
                default:
                    let error = PostgresError(.misuse, misuse)
                    breakConnection(error)
                    throw error
                }
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
