import CLibpq

extension ConnectionDriver {
    /// Results of an exchange so far.
    private struct Progress {
        /// The unit whose results come next.
        var position = 0
        var outcomes: [PostgresPipelineResults.Outcome]
        /// The first error of the server, and the unit that it came for.
        var failure: (unit: Int, error: PostgresError)?
        /// Error of the first row that could not be decoded.
        var decodingFailure: PostgresError?
        /// Whether COMMIT was answered with ROLLBACK, because the transaction had failed before.
        var didRollBack = false
        var isComplete = false
    }

    /// Sends an exchange and reads its results. A failure within a transaction of the exchange's own rolls it back.
    func run(_ exchange: Exchange) throws(PostgresError) -> PostgresPipelineResults {
        try checkUse(by: exchange.transaction)
        for item in exchange.items { try item.parameters.validate(statement: item.name) }
        defer { finishCancel() }

        let joinsTransaction = begun != nil
        for attempt in 1...2 {
            try dropPreparedIfAsked()
            let units = plan(exchange)
            guard !units.isEmpty else { break }
            let progress = try roundTrip(units, of: exchange)
            guard let failure = progress.failure else {
                if exchange.commits { begun = nil } else { try checkIsOpen(exchange.transaction) }
                if progress.didRollBack { throw takeTransactionFailure() }
                if let failure = progress.decodingFailure { throw failure }
                return PostgresPipelineResults(outcomes: progress.outcomes)
            }
            let error = failure.error.of(statement: name(of: failure.unit, in: units, of: exchange))
            let isStale = isStalePlan(error, at: failure.unit, in: units)
            if isStale { mustPrepareAnew = true }
            if let commit = units.firstIndex(where: \.isCommit), failure.unit > commit {
                // The transaction stands; only what follows it failed.
                begun = nil
                throw error.replacing(commitOutcomeUnknown: true)
            }
            if joinsTransaction {
                if exchange.commits { begun = nil }
                if transactionFailure == nil { transactionFailure = error }
                throw isStale ? error.replacing(isRetriable: true) : error
            }
            // Nothing of it took effect: without BEGIN the statements were one implicit transaction.
            let isRetried = isStale && attempt == 1
            if begun != nil, isRetried || exchange.commits { rollBackAfterFailure() }
            if !isRetried {
                if begun != nil { transactionFailure = error }
                throw isStale ? error.replacing(isRetriable: true) : error
            }
        }
        return PostgresPipelineResults(outcomes: [])
    }

    /// Ends a transaction without committing. Nothing to do when nothing was sent in it.
    func rollBack(_ transaction: TransactionMark) throws(PostgresError) {
        guard begun == transaction.id, brokenBecause == nil else { return }
        rollBackAfterFailure()
        if let brokenBecause { throw brokenBecause }
    }

    private func rollBackAfterFailure() {
        begun = nil
        transactionFailure = nil
        // A COMMIT that failed has ended the transaction already.
        if connection.transactionStatus == PQTRANS_IDLE { return }
        do throws(PostgresError) {
            let progress = try roundTrip([.rollback], of: Exchange())
            if let failure = progress.failure { throw failure.error }
        } catch {
            // Without a certain end of the transaction the connection is of no use.
            breakConnection(error)
        }
    }

    /// In a round trip of its own: as part of a transaction it would come before the transaction's settings.
    func dropPreparedIfAsked() throws(PostgresError) {
        guard mustPrepareAnew, begun == nil else { return }
        prepared = [:]
        mustPrepareAnew = false
        _ = try roundTrip([.deallocateAll], of: Exchange())
    }

    /// Refuses calls that do not belong to the open transaction.
    func checkUse(by transaction: TransactionMark?) throws(PostgresError) {
        if let brokenBecause { throw brokenBecause.replacing(commitOutcomeUnknown: false) }
        guard let begun else { return }
        guard transaction?.id == begun else {
            throw PostgresError(.misuse, "a transaction is open on this connection: use the one lent for it")
        }
    }

    /// Checks that a successful statement did not end the transaction: later statements would commit on their own.
    func checkIsOpen(_ transaction: TransactionMark?) throws(PostgresError) {
        guard transaction != nil, connection.transactionStatus == PQTRANS_IDLE else { return }
        begun = nil
        throw PostgresError(.misuse, "the transaction was ended by one of its own statements")
    }

    private func takeTransactionFailure() -> PostgresError {
        defer { transactionFailure = nil }
        return transactionFailure
            ?? PostgresError(.server, "the transaction had failed and was rolled back", sqlState: "25P02")
    }

    /// Whether the server's prepared statements differ from those that the connection has recorded: one is missing,
    /// exists already, or is outdated. 0A000 ("cached plan must not change result type") has other causes, too, so it
    /// counts only for statements that were prepared in an earlier exchange.
    private func isStalePlan(_ error: PostgresError, at unit: Int, in units: [Exchange.Unit]) -> Bool {
        switch error.sqlState {
        case "26000", "42P05": return true
        case "0A000":
            guard unit < units.count, case .execute(_, _, isOld: true) = units[unit] else { return false }
            return true
        default: return false
        }
    }

    private func plan(_ exchange: Exchange) -> [Exchange.Unit] {
        var units: [Exchange.Unit] = []
        if exchange.transaction != nil, begun == nil {
            // A transaction in which nothing was done needs neither BEGIN nor COMMIT.
            if exchange.items.isEmpty { return [] }
            units.append(.begin)
        }
        var fresh: [StatementKey: String] = [:]
        let last = exchange.items.count - exchange.followers
        for (index, item) in exchange.items.enumerated() {
            if index == last, exchange.commits { units.append(.commit) }
            let key = StatementKey(sql: item.sql, types: item.parameters.fields.map(\.oid))
            if let name = prepared[key] {
                units.append(.execute(item: index, name: name, isOld: true))
            } else if let name = fresh[key] {
                units.append(.execute(item: index, name: name, isOld: false))
            } else {
                let name = key.name
                fresh[key] = name
                units.append(.prepare(item: index, key: key, name: name))
                units.append(.execute(item: index, name: name, isOld: false))
            }
        }
        if exchange.commits, exchange.followers == 0 { units.append(.commit) }
        return units
    }

    private func name(of unit: Int, in units: [Exchange.Unit], of exchange: Exchange) -> String? {
        guard unit < units.count else {
            // Deferred checks fail at the sync, which stands for the COMMIT of an implicit transaction.
            return exchange.items.last?.name
        }
        return switch units[unit] {
        case .begin: "BEGIN"
        case .commit: "COMMIT"
        case .rollback: "ROLLBACK"
        case .deallocateAll: "DEALLOCATE ALL"
        case .prepare(let item, _, _), .execute(let item, _, _): exchange.items[item].name
        }
    }
}

/// The round trip itself.
extension ConnectionDriver {
    private func roundTrip(
        _ units: [Exchange.Unit], of exchange: Exchange
    ) throws(PostgresError) -> Progress {
        var progress = Progress(
            outcomes: Array(repeating: PostgresPipelineResults.Outcome(affected: 0), count: exchange.items.count))
        guard connection.enterPipeline() else { throw lost() }
        expectAnswers(to: units.count)
        defer { expectNothing() }
        do throws(PostgresError) {
            for unit in units where !send(unit, of: exchange) { throw lost() }
            guard connection.sendSync() else { throw lost() }
            while true {
                let output = connection.flush()
                try readResults(units, of: exchange, into: &progress)
                if progress.isComplete { break }
                if connection.isLost || output == .failed { throw lost() }
                try step(hasOutput: output == .more)
            }
        } catch {
            throw outcome(ofLoss: error, units, progress, of: exchange)
        }
        deliverNotifications()
        guard connection.exitPipeline() else { throw lost() }
        return progress
    }

    private func send(_ unit: Exchange.Unit, of exchange: Exchange) -> Bool {
        switch unit {
        case .begin: connection.sendPlain(TransactionMark.begin)
        case .commit: connection.sendPlain("COMMIT")
        case .rollback: connection.sendPlain("ROLLBACK")
        case .deallocateAll: connection.sendPlain("DEALLOCATE ALL")
        case .prepare(_, let key, let name): connection.sendPrepare(name: name, sql: key.sql, types: key.types)
        case .execute(let item, let name, _):
            connection.sendExecute(name: name, parameters: exchange.items[item].parameters)
        }
    }

    /// Takes the results that have arrived.
    private func readResults(
        _ units: [Exchange.Unit], of exchange: Exchange, into progress: inout Progress
    ) throws(PostgresError) {
        while !connection.isBusy {
            guard let result = connection.nextResult() else {
                if connection.isLost || progress.position > units.count { throw lost() }
                progress.position += 1
                continue
            }
            switch result.status {
            case PGRES_PIPELINE_SYNC:
                progress.isComplete = true
                return
            case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY:
                if progress.position < units.count {
                    accept(result, for: units[progress.position], of: exchange, into: &progress)
                }
            case PGRES_PIPELINE_ABORTED:
                break
            case PGRES_FATAL_ERROR:
                // libpq tells of a lost connection in a result as well; that one has no SQLSTATE.
                let error = self.error(of: result)
                if connection.isLost, error.sqlState == nil { throw lost() }
                if progress.failure == nil { progress.failure = (progress.position, error) }
            default: throw refuseCopy()
            }
        }
    }

    private func accept(
        _ result: borrowing LibpqResult, for unit: Exchange.Unit, of exchange: Exchange, into progress: inout Progress
    ) {
        switch unit {
        case .begin:
            begun = exchange.transaction?.id
            transactionFailure = nil
        case .commit:
            progress.didRollBack = result.commandStatus == "ROLLBACK"
        case .rollback, .deallocateAll:
            break
        case .prepare(_, let key, let name):
            prepared[key] = name
        case .execute(let index, _, _):
            let item = exchange.items[index]
            progress.outcomes[index].affected = result.affected
            guard let decode = item.decode, progress.decodingFailure == nil else { return }
            do throws(PostgresError) {
                progress.outcomes[index].rows = try decode(result)
            } catch {
                progress.decodingFailure = error.of(statement: item.name)
            }
        }
    }

    /// The error of a failed result. A cancel that this call asked for is not the server's doing.
    func error(of result: borrowing LibpqResult) -> PostgresError {
        let error = result.error(.server)
        if error.isReadOnly { isReadOnly = true }
        return hasCancelled && error.sqlState == "57014"
            ? error.replacing(kind: .cancelled, isRetriable: false) : error
    }

    /// Error of an exchange whose connection was lost, with the outcome of its COMMIT.
    private func outcome(
        ofLoss loss: PostgresError, _ units: [Exchange.Unit], _ progress: Progress, of exchange: Exchange
    ) -> PostgresError {
        let commits = exchange.commits || exchange.transaction == nil && !exchange.items.isEmpty
        // An error before the COMMIT, or before the sync that stands for it, is certain to have undone everything.
        let lastUnit = units.firstIndex(where: \.isCommit) ?? units.count
        let isUndone = progress.failure.map { $0.unit < lastUnit } ?? false
        let unit = progress.failure?.unit ?? progress.position
        // The server's last message, such as "terminating connection due to administrator command", is the reason.
        var error = progress.failure?.error ?? loss
        if error.kind == .server { error = error.lostWithConnection }
        breakConnection(error)
        return error.of(statement: name(of: unit, in: units, of: exchange))
            .replacing(commitOutcomeUnknown: commits && !isUndone)
    }
}
