// SPDX-License-Identifier: Apache-2.0

import CLibpq
import Logging

/// A connection, used by its thread only; waits block that thread.
final class ConnectionDriver {
    let connection: LibpqConnection
    let configuration: PostgresConfiguration
    let logger: Logger
    let thread: ConnectionThread
    private let notices: LibpqNotices
    private let notified: @Sendable (_ channel: String, _ payload: String) -> Void

    /// Reason for which the connection cannot be used any more. Its thread ends after the current call.
    private(set) var brokenBecause: PostgresError?
    /// Statements that this connection has prepared, and their names.
    var prepared: [StatementKey: String] = [:]
    /// Whether the prepared statements are to be dropped as soon as no transaction is open.
    var mustPrepareAnew = false
    /// The transaction that is open, by its identity.
    var begun: UInt64?
    /// Error after which the open transaction cannot commit.
    var transactionFailure: PostgresError?
    /// Whether the server has refused to write.
    var isReadOnly = false
    /// Longest silence of the server in the current round trip, and its end; nil without a limit.
    private var silence: (limit: Duration, deadline: ContinuousClock.Instant)?

    /// Request to cancel the current call, and time at which the connection is given up.
    private var cancel: (request: LibpqCancel?, deadline: ContinuousClock.Instant)?

    /// Connects, checks that the session is not shared, and configures it; waits as long as the configuration allows.
    ///
    /// - Parameter isPlain: leaves the session as it is, unchecked.
    init(
        connecting configuration: PostgresConfiguration, logger: Logger, thread: ConnectionThread,
        isPlain: Bool = false, notified: @escaping @Sendable (_ channel: String, _ payload: String) -> Void
    ) throws(PostgresError) {
        try configuration.validate()
        let connection = try Self.connect(configuration, thread: thread)
        self.connection = connection
        self.configuration = configuration
        self.logger = logger
        self.thread = thread
        self.notices = LibpqNotices(logger: logger)
        self.notified = notified
        notices.attach(to: self.connection)
        guard !isPlain else { return }
        try requireSession()
        var pipeline = PostgresPipeline()
        _ = pipeline.append(.configureSession(configuration))
        _ = try run(pipeline)
    }

    var socket: Int32 { connection.socket }

    private static func connect(
        _ configuration: PostgresConfiguration, thread: ConnectionThread
    ) throws(PostgresError) -> LibpqConnection {
        let string = try ConnectionString(parsing: configuration.connectionString)
        let perHost =
            string["connect_timeout"].flatMap(Int64.init).map { $0 > 0 ? Duration.seconds($0) : .seconds(3600) }
            ?? configuration.connectTimeout
        var parameters = [
            ("application_name", configuration.applicationName), ("keepalives_idle", "30"),
            ("keepalives_interval", "10"), ("keepalives_count", "3"),
        ]
        if string.hostCount > 1 {
            // Makes the kernel give up on a host that does not answer, so that libpq goes on to the next one.
            parameters.append(("tcp_user_timeout", String(perHost.wholeMilliseconds)))
            // Of several hosts the primary, which a failover changes.
            parameters.append(("target_session_attrs", "read-write"))
        } else {
            // Keep-alives say nothing while something that was sent is not acknowledged.
            parameters.append(("tcp_user_timeout", "60000"))
        }
        parameters += [("dbname", configuration.connectionString), ("client_encoding", "UTF8")]
        if let bundle = string.systemCertificates(among: configuration.certificateBundles) {
            parameters.append(("sslrootcert", bundle))
        }
        let connection = try LibpqConnection(connecting: parameters)
        let patience = perHost * string.hostCount
        let deadline = ContinuousClock.now + patience
        if connection.isLost { throw connectionError(connection) }
        var awaited = WakeUp.Events.writable
        while true {
            let happened = thread.wakeUp.wait(socket: connection.socket, for: awaited, until: deadline)
            if thread.isStopping { throw PostgresError(.shutdown, "the connection was closed") }
            // An error on the socket reads as readable.
            guard happened.contains(awaited) || happened.contains(.readable) else {
                if deadline <= .now {
                    throw PostgresError(.connection, "no answer from the server within \(patience)")
                }
                continue
            }
            switch connection.connectPoll() {
            case PGRES_POLLING_READING: awaited = .readable
            case PGRES_POLLING_WRITING: awaited = .writable
            case PGRES_POLLING_OK:
                guard connection.makeNonBlocking() else { throw connectionError(connection) }
                return connection
            default: throw connectionError(connection)
            }
        }
    }

    /// Error of a refused connection. With verbose errors libpq's text has the SQLSTATE after the severity:
    /// `… FATAL:  28P01: password authentication failed …`.
    private static func connectionError(_ connection: borrowing LibpqConnection) -> PostgresError {
        var parts = connection.errorMessage.split(separator: "; ").filter { !$0.hasPrefix("LOCATION:") }.map(
            String.init)
        var state: String?
        for index in parts.indices where state == nil {
            var fields = parts[index].split(separator: ":", omittingEmptySubsequences: false)
            let found = fields.firstIndex { field in
                let code = field.drop { $0 == " " }
                return code.utf8.count == 5
                    && code.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) }
                    && code.utf8.contains { (0x30...0x39).contains($0) } && field.hasPrefix(" ")
            }
            if let found {
                state = String(fields[found].drop { $0 == " " })
                fields.remove(at: found)
                parts[index] = fields.joined(separator: ":").split(separator: " ").joined(separator: " ")
            }
        }
        let message = parts.joined(separator: "; ")
        // Class 28: not let in. 3D000: no such database. 42501: no right to connect. Waiting cures none of these.
        let refused =
            connection.lacksPassword || state.map { $0.hasPrefix("28") || $0 == "3D000" || $0 == "42501" } ?? false
        return PostgresError(
            refused ? .configuration : .connection, message, sqlState: state, isRetriable: !refused)
    }
}

extension Duration {
    /// Rounded up.
    fileprivate var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
    }
}

/// Waiting.
extension ConnectionDriver {
    /// Marks the connection as unusable.
    func breakConnection(_ error: PostgresError) {
        if brokenBecause == nil { brokenBecause = error }
    }

    /// Marks the connection as lost, and returns the reason: the server's message, else libpq's.
    func lost() -> PostgresError {
        let message = connection.errorMessage
        let error =
            notices.fatal ?? PostgresError(.connection, message.isEmpty ? "the connection was lost" : message)
        breakConnection(error)
        return brokenBecause ?? error
    }

    /// Between calls: waits for the next one, or for something on the socket.
    func waitIdle() {
        let happened = thread.wakeUp.wait(socket: socket, for: .readable, until: nil)
        guard happened.contains(.readable) else { return }
        do throws(PostgresError) { try readInput() } catch {}
    }

    /// Reads notices and notifications that came unasked; notices a lost connection.
    func readInput() throws(PostgresError) {
        let isAlive = connection.consumeInput()
        deliverNotifications()
        if !isAlive || connection.isLost { throw lost() }
    }

    /// Whether the next borrower would find the connection as new.
    var isClean: Bool {
        brokenBecause == nil && !isReadOnly && begun == nil && connection.transactionStatus == PQTRANS_IDLE
    }

    func deliverNotifications() {
        while let notification = connection.nextNotification() {
            notified(notification.channel, notification.payload)
        }
    }

    /// One step of a pipeline: waits until the socket is ready, and reads. Also sends the request to cancel when the
    /// caller has gone.
    /// - Throws: When the connection is lost, or a cancelled statement does not end in time.
    func step(hasOutput: Bool) throws(PostgresError) {
        cancelIfAsked()
        let interest: WakeUp.Events = hasOutput ? [.readable, .writable] : .readable
        let happened = thread.wakeUp.wait(
            socket: socket, for: interest, until: cancel?.deadline ?? silence?.deadline)
        cancelIfAsked()
        if cancel == nil, let silence {
            if !happened.isDisjoint(with: [.readable, .writable]) {
                self.silence = (silence.limit, .now + silence.limit)
            } else if silence.deadline <= .now {
                let error = PostgresError(.connection, "the server was silent for longer than its statements may take")
                breakConnection(error)
                throw error
            }
        }
        if let cancel, cancel.deadline <= .now {
            let error = PostgresError(.cancelled, "the task was cancelled, and the server did not answer any more")
            breakConnection(error)
            throw error
        }
        if happened.contains(.readable), !connection.consumeInput() {
            // The results that came before the loss are still to be read.
            if !connection.isBusy { return }
            throw lost()
        }
    }

    /// Limits the server's silence. The server ends each statement within its timeout, so it counts as gone when it is
    /// silent for longer than all of them may take. Sessions with settings of their own may take longer.
    func expectAnswers(to statements: Int) {
        guard let limit = configuration.statementTimeout, !thread.hasOwnSettings else { return }
        let patience = limit * max(1, statements) + configuration.cancelTimeout
        silence = (patience, .now + patience)
    }

    func expectNothing() { silence = nil }

    private func cancelIfAsked() {
        guard cancel == nil, thread.isCurrentCallCancelled else { return }
        let request = LibpqCancel(of: connection)
        request?.start(waking: thread.wakeUp)
        cancel = (request, .now + configuration.cancelTimeout)
    }

    /// Whether this call asked the server to cancel it.
    var hasCancelled: Bool { cancel != nil }

    /// Ends the call's cancellation: once the request has ended it cannot hit the next statement.
    func finishCancel() {
        while let cancel, let request = cancel.request, !request.hasEnded {
            _ = thread.wakeUp.wait(socket: nil, for: [], until: cancel.deadline)
            if !request.hasEnded, cancel.deadline <= .now {
                breakConnection(PostgresError(.connection, "a request to cancel a statement did not end"))
                break
            }
        }
        cancel = nil
    }
}

/// Preparing.
extension ConnectionDriver {
    /// Rows of a statement that prepares the connection; nil without the statement's tables and functions.
    func prepare<Statement: PostgresStatement>(
        with statement: Statement
    ) throws(PostgresError) -> [Statement.Row]? {
        var pipeline = PostgresPipeline()
        let handle = pipeline.append(statement)
        let results: PostgresPipelineResults
        do {
            results = try run(pipeline)
        } catch {
            if ["42P01", "42883"].contains(error.sqlState) { return nil }
            throw error
        }
        return results.rows(handle)
    }
}

extension PostgresStatement where Self == Statements {
    /// Sets the settings of a session.
    fileprivate static func configureSession(_ configuration: PostgresConfiguration) -> PostgresQuery<Void> {
        // A short statement whose cost is overestimated must not be compiled for tens of milliseconds at every
        // execution. Plans are made once, and last while tables grow a thousandfold: they look rows up by an index
        // wherever there is one. Each statement of a transaction has a snapshot of its own.
        var settings = [
            "jit": "off", "enable_seqscan": "off", "plan_cache_mode": "force_generic_plan",
            "default_transaction_isolation": "read committed",
        ]
        settings["statement_timeout"] = configuration.statementTimeout.map { "\($0.wholeMilliseconds)" }
        settings["idle_in_transaction_session_timeout"] =
            configuration.idleInTransactionTimeout.map { "\($0.wholeMilliseconds)" }
        return PostgresQuery(
            """
            SELECT pg_catalog.count(pg_catalog.set_config(name, setting, false))
            FROM unnest($1::text[], $2::text[]) AS s(name, setting)
            """, PostgresArray(Array(settings.keys)), PostgresArray(Array(settings.values)))
    }
}

extension ConnectionDriver {
    /// Results of a round trip so far.
    private struct Progress {
        /// The unit whose results come next.
        var position = 0
        var results: PostgresPipelineResults
        /// The first error of the server, and the unit that it came for.
        var failure: (unit: Int, error: PostgresError)?
        /// Error of the first row that could not be decoded.
        var decodingFailure: PostgresError?
        /// Whether COMMIT was answered with ROLLBACK, because the transaction had failed before.
        var didRollBack = false
        var isComplete = false
    }

    /// Sends a pipeline and reads its results. A failure within a transaction of the pipeline's own rolls it back.
    func run(_ pipeline: PostgresPipeline) throws(PostgresError) -> PostgresPipelineResults {
        try checkUse(by: pipeline.transaction)
        for item in pipeline.items { try item.parameters.validate(statement: item.name) }
        defer { finishCancel() }

        let joinsTransaction = begun != nil
        for attempt in 1...2 {
            try dropPreparedIfAsked()
            let units = plan(pipeline)
            guard !units.isEmpty else { break }
            let progress = try roundTrip(units, of: pipeline)
            guard let failure = progress.failure else {
                if pipeline.commits { begun = nil } else { try checkIsOpen(pipeline.transaction) }
                if progress.didRollBack { throw takeTransactionFailure() }
                if let failure = progress.decodingFailure { throw failure }
                return progress.results
            }
            let error = failure.error.of(statement: name(of: failure.unit, in: units, of: pipeline))
            let isStale = isStalePlan(error, at: failure.unit, in: units)
            if isStale { mustPrepareAnew = true }
            if joinsTransaction {
                if pipeline.commits { begun = nil }
                if transactionFailure == nil { transactionFailure = error }
                throw isStale ? error.replacing(isRetriable: true) : error
            }
            // Nothing of it took effect: without BEGIN the statements were one implicit transaction.
            let isRetried = isStale && attempt == 1
            if begun != nil, isRetried || pipeline.commits { rollBackAfterFailure() }
            if !isRetried {
                if begun != nil { transactionFailure = error }
                throw isStale ? error.replacing(isRetriable: true) : error
            }
        }
        return PostgresPipelineResults()
    }

    /// Ends a transaction without committing. Nothing to do when nothing was sent in it.
    func rollBack(_ transaction: UInt64?) throws(PostgresError) {
        guard let transaction, begun == transaction, brokenBecause == nil else { return }
        rollBackAfterFailure()
        if let brokenBecause { throw brokenBecause }
    }

    private func rollBackAfterFailure() {
        begun = nil
        transactionFailure = nil
        // A COMMIT that failed has ended the transaction already.
        if connection.transactionStatus == PQTRANS_IDLE { return }
        do throws(PostgresError) {
            let progress = try roundTrip([.rollback], of: PostgresPipeline())
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
        _ = try roundTrip([.deallocateAll], of: PostgresPipeline())
    }

    /// Refuses calls that do not belong to the open transaction.
    func checkUse(by transaction: UInt64?) throws(PostgresError) {
        if let brokenBecause { throw brokenBecause.replacing(commitOutcomeUnknown: false) }
        guard let begun else { return }
        guard transaction == begun else {
            throw PostgresError(.misuse, "a transaction is open on this connection: use the one lent for it")
        }
    }

    /// Checks that a successful statement did not end the transaction: later statements would commit on their own.
    func checkIsOpen(_ transaction: UInt64?) throws(PostgresError) {
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
    /// counts only for statements that were prepared in an earlier round trip.
    private func isStalePlan(_ error: PostgresError, at unit: Int, in units: [RoundTripUnit]) -> Bool {
        switch error.sqlState {
        case "26000", "42P05": return true
        case "0A000":
            guard unit < units.count, case .execute(_, _, isOld: true) = units[unit] else { return false }
            return true
        default: return false
        }
    }

    private func plan(_ pipeline: PostgresPipeline) -> [RoundTripUnit] {
        var units: [RoundTripUnit] = []
        var fresh: [StatementKey: String] = [:]
        func prepare(_ key: StatementKey, for statement: String) -> (name: String, isOld: Bool) {
            if let name = prepared[key] { return (name, true) }
            if let name = fresh[key] { return (name, false) }
            let name = key.name
            fresh[key] = name
            units.append(.prepare(key: key, name: name, for: statement))
            return (name, false)
        }

        // The server begins a transaction itself with the first statement of a pipeline, and commits it at the sync.
        let isImplicit = pipeline.commits && begun == nil
        if pipeline.transaction != nil, begun == nil {
            // A transaction in which nothing was done needs neither BEGIN nor COMMIT.
            if pipeline.items.isEmpty { return [] }
            if !isImplicit { units.append(.begin) }
        }
        for (index, item) in pipeline.items.enumerated() {
            let key = StatementKey(sql: item.sql, types: item.parameters.fields.map(\.oid))
            let (name, isOld) = prepare(key, for: item.name)
            units.append(.execute(item: index, name: name, isOld: isOld))
        }
        if pipeline.commits, !isImplicit { units.append(.commit) }
        return units
    }

    private func name(of unit: Int, in units: [RoundTripUnit], of pipeline: PostgresPipeline) -> String? {
        guard unit < units.count else {
            // Deferred checks fail at the sync, which stands for the COMMIT of an implicit transaction.
            return pipeline.commits ? "COMMIT" : pipeline.items.last?.name
        }
        return switch units[unit] {
        case .begin: "BEGIN"
        case .commit: "COMMIT"
        case .rollback: "ROLLBACK"
        case .deallocateAll: "DEALLOCATE ALL"
        case .prepare(_, _, let name): name
        case .execute(let item, _, _): pipeline.items[item].name
        }
    }
}

/// The round trip itself.
extension ConnectionDriver {
    private func roundTrip(
        _ units: [RoundTripUnit], of pipeline: PostgresPipeline
    ) throws(PostgresError) -> Progress {
        var progress = Progress(
            results: PostgresPipelineResults(
                outcomes: Array(repeating: (rows: nil, affected: 0), count: pipeline.items.count)))
        guard connection.enterPipeline() else { throw lost() }
        // The sync commits a transaction without a COMMIT, which may wait for a standby.
        expectAnswers(to: units.count + 1)
        defer { expectNothing() }
        do throws(PostgresError) {
            for unit in units {
                let isSent =
                    switch unit {
                    case .begin: connection.sendPlain("BEGIN")
                    case .commit: connection.sendPlain("COMMIT")
                    case .rollback: connection.sendPlain("ROLLBACK")
                    case .deallocateAll: connection.sendPlain("DEALLOCATE ALL")
                    case .prepare(let key, let name, _):
                        connection.sendPrepare(name: name, sql: key.sql, types: key.types)
                    case .execute(let item, let name, _):
                        connection.sendExecute(name: name, parameters: pipeline.items[item].parameters)
                    }
                guard isSent else { throw lost() }
            }
            guard connection.sendSync() else { throw lost() }
            while true {
                let hasOutput = connection.flush()
                try readResults(units, of: pipeline, into: &progress)
                if progress.isComplete { break }
                guard !connection.isLost, let hasOutput else { throw lost() }
                try step(hasOutput: hasOutput)
            }
        } catch {
            throw outcome(ofLoss: error, units, progress, of: pipeline)
        }
        deliverNotifications()
        guard connection.exitPipeline() else { throw lost() }
        return progress
    }

    /// Takes the results that have arrived.
    private func readResults(
        _ units: [RoundTripUnit], of pipeline: PostgresPipeline, into progress: inout Progress
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
                guard progress.position < units.count else { continue }
                switch units[progress.position] {
                case .begin:
                    begun = pipeline.transaction
                    transactionFailure = nil
                case .commit:
                    progress.didRollBack = result.commandStatus == "ROLLBACK"
                case .rollback, .deallocateAll:
                    break
                case .prepare(let key, let name, _):
                    prepared[key] = name
                case .execute(let index, _, _):
                    let item = pipeline.items[index]
                    progress.results.outcomes[index].affected = result.affected
                    guard let decode = item.decode, progress.decodingFailure == nil else { continue }
                    do throws(PostgresError) {
                        progress.results.outcomes[index].rows = try decode(result)
                    } catch {
                        progress.decodingFailure = error.of(statement: item.name)
                    }
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

    /// The error of a failed result. A cancel that this call asked for is not the server's doing.
    func error(of result: borrowing LibpqResult) -> PostgresError {
        let error = result.error(.server)
        if error.isReadOnly { isReadOnly = true }
        return hasCancelled && error.sqlState == "57014"
            ? error.replacing(kind: .cancelled, isRetriable: false) : error
    }

    /// Error of a round trip whose connection was lost, with the outcome of its COMMIT.
    private func outcome(
        ofLoss loss: PostgresError, _ units: [RoundTripUnit], _ progress: Progress, of pipeline: PostgresPipeline
    ) -> PostgresError {
        let commits = pipeline.commits || pipeline.transaction == nil && !pipeline.items.isEmpty
        // An error before the COMMIT, or before the sync that stands for it, is certain to have undone everything.
        let lastUnit = units.firstIndex(where: \.isCommit) ?? units.count
        let isUndone = progress.failure.map { $0.unit < lastUnit } ?? false
        let unit = progress.failure?.unit ?? progress.position
        // The server's last message, such as "terminating connection due to administrator command", is the reason.
        var error = progress.failure?.error ?? loss
        if error.kind == .server { error = error.lostWithConnection }
        breakConnection(error)
        return error.of(statement: name(of: unit, in: units, of: pipeline))
            .replacing(commitOutcomeUnknown: commits && !isUndone)
    }
}

extension ConnectionDriver {
    /// Runs a text of one or several statements by the simple protocol, without their rows. BEGIN goes in front if the
    /// transaction has not begun.
    func simple(_ sql: String, in transaction: UInt64?) throws(PostgresError) {
        try checkUse(by: transaction)
        defer { finishCancel() }
        guard !sql.utf8.contains(0) else { throw PostgresError(.encoding, "the statement holds a NUL byte") }
        try dropPreparedIfAsked()
        let begins = begun == nil ? transaction : nil
        guard connection.sendSimple((begins == nil ? "" : "BEGIN;\n") + sql) else { throw lost() }
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
            begun = begins
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
            let hasOutput = connection.flush()
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
            guard !connection.isLost, let hasOutput else { throw lost() }
            try step(hasOutput: hasOutput)
        }
    }

    /// Gives up the connection: the server waits for the data of a COPY.
    func refuseCopy() -> PostgresError {
        let error = PostgresError(.misuse, "COPY is not supported")
        breakConnection(error)
        return error
    }
}

/// Check that a connection is a session of its own, which nothing between Freshet and the server shares with others.
///
/// A pooler in transaction mode gives each transaction any of its server connections. Settings and prepared statements
/// would then be those of other clients.
extension ConnectionDriver {
    /// Servers that were reached through a pooler in session mode, by connection string. They are not checked again:
    /// the second connection of a check might be one more than the pooler grants.
    private static let checked = Locked<Set<String>>([])

    /// Most comparisons. A pooler that uses its server connections in turn may give the same one again by chance.
    private static let comparisons = 3

    /// Checks the connection before it gets settings. Prepares nothing.
    ///
    /// - Throws: `.configuration` for a pooler in transaction mode; the error of a connection.
    func requireSession() throws(PostgresError) {
        let server = configuration.connectionString
        let process = try backend()
        // The server itself names the process at the login. A pooler names a client of its own.
        let isDirect = process == String(connection.namedProcess)
        guard !isDirect, !Self.checked.withLock({ $0.contains(server) }) else { return }
        let other = try ConnectionDriver(
            connecting: configuration, logger: logger, thread: thread, isPlain: true, notified: { _, _ in })
        for _ in 1...Self.comparisons {
            // A pooler has to give the process of this connection away, or this connection another one.
            let taken = try other.backend(after: "BEGIN")
            guard taken != process, try backend() == process else {
                throw PostgresError(
                    .configuration,
                    "a connection pooler in transaction or statement mode is before PostgreSQL: statements of one "
                        + "connection run in several sessions, which other clients share",
                    hint: "connect to PostgreSQL itself, or to a pooler in session mode")
            }
            _ = try other.backend(after: "ROLLBACK")
        }
        Self.checked.withLock { _ = $0.insert(server) }
    }
}
