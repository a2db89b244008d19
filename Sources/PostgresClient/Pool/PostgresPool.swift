package import Logging

/// A bounded number of connections, lent in the order in which they were asked for.
///
/// Connections are made when needed. While the server is away, attempts follow one another with exponential back-off;
/// a caller waits at most `acquireTimeout` and then gets the latest attempt's error.
package final class PostgresPool: Sendable {
    package struct Statistics: Sendable, Hashable {
        /// Connections that are made, idle and lent.
        package var open: Int
        package var idle: Int
        package var lent: Int
        /// Attempts to connect under way.
        package var connecting: Int
        /// Callers that wait for a connection.
        package var waiting: Int
        /// Since the pool was made.
        package var waits = Waits()
    }

    /// Callers that did not get a connection at once.
    package struct Waits: Sendable, Hashable {
        package var count = 0
        /// How long they waited, added up.
        package var time = Duration.zero
        /// Those that waited in vain.
        package var timeouts = 0
    }

    package let configuration: PostgresConfiguration
    private let logger: Logger
    private let state: Locked<PoolState>

    /// Opens no connection yet. An invalid configuration is the error of the first use; check it at the start with
    /// ``PostgresConfiguration/validate()``.
    package init(configuration: PostgresConfiguration, logger: Logger) {
        self.configuration = configuration
        self.logger = logger
        state = Locked(PoolState(maximum: configuration.maximumConnections))
    }

    deinit {
        close()
    }

    package var statistics: Statistics {
        state.withLock { state in
            Statistics(
                open: state.open, idle: state.idle.count, lent: state.lent, connecting: state.connecting,
                waiting: state.waiters.count, waits: state.waits)
        }
    }

    /// Lends a connection to `body`.
    /// - Throws: The error of `body`, or a ``PostgresError`` when no connection could be lent.
    package func withConnection<Value: Sendable>(
        _ body: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        let loan = try await acquire()
        defer { release(loan) }
        return try await body(PostgresConnection(loan))
    }

    /// As ``withConnection(_:)``, for a body that throws nothing else.
    func lending<Value: Sendable>(
        _ body: (PostgresConnection) async throws(PostgresError) -> Value
    ) async throws(PostgresError) -> Value {
        let loan = try await acquire()
        defer { release(loan) }
        return try await body(PostgresConnection(loan))
    }

    /// Lends a connection in a transaction: see ``PostgresConnection/withTransaction(_:)``.
    package func withTransaction<Value: Sendable>(
        _ body: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        try await withConnection { connection in try await connection.withTransaction(body) }
    }

    /// BEGIN, the statements, COMMIT, in one round trip: see ``PostgresConnection/transaction(_:)``.
    package func transaction(_ pipeline: PostgresPipeline) async throws(PostgresError) -> PostgresPipelineResults {
        try await lending { connection throws(PostgresError) in try await connection.transaction(pipeline) }
    }

    /// One statement on a lent connection: see ``PostgresConnection/query(_:)``.
    package func query<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> [Statement.Row] {
        try await lending { connection throws(PostgresError) in try await connection.query(statement) }
    }

    /// One statement on a lent connection: see ``PostgresConnection/execute(_:)``.
    package func execute<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> Int {
        try await lending { connection throws(PostgresError) in try await connection.execute(statement) }
    }

    /// Several statements on a lent connection, all or nothing: see ``PostgresConnection/run(_:)``.
    package func run(_ pipeline: PostgresPipeline) async throws(PostgresError) -> PostgresPipelineResults {
        try await lending { connection throws(PostgresError) in try await connection.run(pipeline) }
    }

    /// Refuses new callers and those that wait, waits until every lent connection is given back, and closes all.
    package func shutdown() async {
        await withCheckedContinuation { continuation in
            state.withLock { $0.shutdowns.append(continuation) }
            close()
        }
    }

    private func close() {
        change { state in
            state.isShutDown = true
            closeIdle(&state)
        }
    }
}

/// Lending.
extension PostgresPool {
    /// Waits for a connection, and looks at it before it is lent: one that was lost while idle is replaced.
    private func acquire() async throws(PostgresError) -> PostgresConnection.Loan {
        let deadline = ContinuousClock.now + configuration.acquireTimeout
        while true {
            let thread = try await connection(until: deadline)
            let loan = PostgresConnection.Loan(of: thread)
            if thread.looksUsable { return loan }
            do throws(PostgresError) {
                try await thread.verify()
                return loan
            } catch {
                logger.debug("a connection was lost while idle", metadata: ["error": "\(error)"])
                release(loan)
            }
        }
    }

    private func release(_ loan: PostgresConnection.Loan) {
        loan.end()
        let isReadOnly = loan.thread.isReadOnly
        if isReadOnly {
            logger.warning("the server takes no writes: its connections are closed, and others made")
        }
        let isKept = change { state in
            state.lent -= 1
            // They are to the same server, or to one that was primary together with it.
            if isReadOnly { closeIdle(&state) }
            // Under the lock: a connection that is lost from here on is found among the idle ones.
            guard loan.isReusable, !state.isShutDown else { return false }
            state.idle.append(loan.thread)
            return true
        }
        if !isKept { loan.thread.stop() }
    }

    private func connection(until deadline: ContinuousClock.Instant) async throws(PostgresError) -> ConnectionThread {
        let immediate = state.withLock { $0.waiters.isEmpty ? $0.nextTurn() : nil }
        if case .connection(let thread) = immediate { return thread }
        let begun = ContinuousClock.now
        do throws(PostgresError) {
            let turn = if let immediate { immediate } else { await wait(until: deadline) }
            let thread =
                switch turn {
                case .connection(let thread): thread
                case .place: try await connect(until: deadline)
                case .refusal(let error): throw error
                }
            countWait(since: begun)
            return thread
        } catch {
            countWait(since: begun, timeouts: error.kind == .poolTimeout ? 1 : 0)
            throw error
        }
    }

    private func countWait(since begun: ContinuousClock.Instant, timeouts: Int = 0) {
        state.withLock { state in
            state.waits.count += 1
            state.waits.time += begun.duration(to: .now)
            state.waits.timeouts += timeouts
        }
    }

    private func wait(until deadline: ContinuousClock.Instant) async -> PoolState.Turn {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        async let _ = expire(id, at: deadline)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                state.withLock { $0.waiters.append(PoolState.Waiter(id: id, continuation: continuation)) }
                change { _ in }
                // The handler may have run before there was anything to cancel.
                if Task.isCancelled { refuse(id, .taskCancelled) }
            }
        } onCancel: {
            refuse(id, .taskCancelled)
        }
    }

    private func expire(_ id: UInt64, at deadline: ContinuousClock.Instant) async {
        var time = deadline
        while true {
            do { try await Task.sleep(until: time, clock: .continuous) } catch { return }
            let error = state.withLock { $0.timeoutError(after: configuration.acquireTimeout) }
            if refuse(id, error) { return }
            // The deadline came before the waiter.
            time += .milliseconds(10)
        }
    }

    /// Answers whether the waiter still waited.
    @discardableResult
    private func refuse(_ id: UInt64, _ error: PostgresError) -> Bool {
        guard let waiter = state.withLock({ $0.takeWaiter(id) }) else { return false }
        waiter.continuation.resume(returning: .refusal(error))
        return true
    }

    /// Changes the state, then serves the waiters that need not wait any more.
    @discardableResult
    private func change<Value>(_ body: (inout PoolState) -> Value) -> Value {
        let (value, served, shutdowns) = state.withLock { state in
            (body(&state), state.servedWaiters(), state.finishedShutdowns())
        }
        for (waiter, turn) in served { waiter.continuation.resume(returning: turn) }
        for shutdown in shutdowns { shutdown.resume() }
        return value
    }

    private func closeIdle(_ state: inout PoolState) {
        for thread in state.idle { thread.stop() }
        state.idle = []
    }
}

/// Connecting.
extension PostgresPool {
    /// Makes a connection for a caller that has a place, with back-off between attempts.
    private func connect(until deadline: ContinuousClock.Instant) async throws(PostgresError) -> ConnectionThread {
        while true {
            do throws(PostgresError) {
                let thread = try await attempt(until: deadline)
                change { state in
                    state.connecting -= 1
                    state.lent += 1
                    state.failures = 0
                }
                return thread
            } catch {
                let delay = failed(error)
                // Waiting cures a server that is away, not a wrong password.
                if error.isRetriable, ContinuousClock.now + delay < deadline,
                    !state.withLock({ $0.isShutDown }), (try? await Task.sleep(for: delay)) != nil
                {
                    continue
                }
                change { $0.connecting -= 1 }
                throw Task.isCancelled ? .taskCancelled : error
            }
        }
    }

    /// Notes a failed attempt.
    ///
    /// - Returns: the time to wait before the next one.
    private func failed(_ error: PostgresError) -> Duration {
        guard error.kind != .cancelled else { return .zero }
        warn(error)
        let failures = state.withLock { state in
            state.failures += 1
            state.lastError = error
            return state.failures
        }
        return configuration.backoff.delay(afterFailures: failures, random: .random(in: 0..<1))
    }

    private func attempt(until deadline: ContinuousClock.Instant) async throws(PostgresError) -> ConnectionThread {
        let thread = try ConnectionThread()
        thread.start(
            configuration: configuration, logger: logger,
            events: ConnectionThread.Events(
                opened: { [weak self] in self?.state.withLock { $0.open += 1 } },
                closed: { [weak self] error in self?.closed(thread, because: error) }))
        async let _ = stop(thread, at: deadline)
        do throws(PostgresError) {
            // Its first call waits until the connection is made.
            try await thread.perform { _ in }
            return thread
        } catch {
            thread.stop()
            guard error.kind == .shutdown, deadline <= .now else { throw error }
            throw PostgresError(.connection, "no answer from the server within \(configuration.acquireTimeout)")
        }
    }

    private func stop(_ thread: ConnectionThread, at deadline: ContinuousClock.Instant) async {
        do { try await Task.sleep(until: deadline, clock: .continuous) } catch { return }
        thread.stop()
    }

    private func closed(_ thread: ConnectionThread, because error: PostgresError?) {
        if let error { warn(error) }
        change { state in
            state.open -= 1
            state.idle.removeAll { $0 === thread }
        }
    }

    private func warn(_ error: PostgresError) {
        logger.warning("a connection to PostgreSQL failed or was lost", metadata: ["error": "\(error)"])
    }
}
