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
        _ = try run(Exchange(items: pipeline.items))
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
            case .needsReading: awaited = .readable
            case .needsWriting: awaited = .writable
            case .connected:
                guard connection.makeNonBlocking() else { throw connectionError(connection) }
                return connection
            case .failed: throw connectionError(connection)
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

    /// One step of an exchange: waits until the socket is ready, and reads. Also sends the request to cancel when the
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
            results = try run(Exchange(items: pipeline.items))
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
        // wherever there is one.
        var settings = ["jit": "off", "enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"]
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
