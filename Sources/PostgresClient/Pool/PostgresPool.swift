// SPDX-License-Identifier: Apache-2.0

package import Logging
import Waiting

/// A bounded number of connections, lent in the order of the requests. Background work gets a part of them at most, so
/// that others find a free one however much of it there is.
///
/// Connections are made when needed. While the server is away, attempts follow one another with exponential back-off; a
/// caller waits at most `acquireTimeout` and then gets the latest attempt's error.
package final class PostgresPool: Sendable {
    package struct Statistics: Sendable, Hashable {
        /// Connections in all, idle and lent.
        package var open: Int
        package var idle: Int
        package var lent: Int
        /// Attempts to connect under way.
        package var connecting: Int
        /// Waiting callers.
        package var waiting: Int
        /// Callers since the pool was made that had to wait for a connection, background work aside.
        package var waits: Int
        /// Sum of their waiting times.
        package var waitingTime: Duration
        /// Number of these callers that got no connection in time.
        package var timeouts: Int
    }

    package let configuration: PostgresConfiguration
    private let logger: Logger
    private let state: Locked<PoolState>
    private let preparations = Locked<[ConnectionThread.Preparation]>([])

    /// Opens no connection yet. The first use reports an invalid configuration; check it before with
    /// ``PostgresConfiguration/validate()``.
    package init(configuration: PostgresConfiguration, logger: Logger) {
        self.configuration = configuration
        self.logger = logger
        state = Locked(
            PoolState(
                maximum: configuration.maximumConnections, backgroundMaximum: configuration.backgroundConnections))
    }

    @TaskLocal private static var isInBackground = false

    /// Runs work that can wait, such as deleting old rows. All work that runs in the background holds at most
    /// ``PostgresConfiguration/backgroundConnections`` of a pool's connections at a time. A body must not ask for a
    /// connection while it holds another one.
    package static func inBackground<Value>(_ body: () async throws -> Value) async rethrows -> Value {
        try await $isInBackground.withValue(true) { try await body() }
    }

    deinit {
        close()
    }

    package var statistics: Statistics {
        state.withLock { state in
            Statistics(
                open: state.open, idle: state.idle.count, lent: state.lent, connecting: state.connecting,
                waiting: state.waiters.count, waits: state.waits, waitingTime: state.waitingTime,
                timeouts: state.timeouts)
        }
    }

    /// Lends a connection to `body`.
    /// - Throws: The error of `body`, or a ``PostgresError`` without a connection.
    package func withConnection<Value: Sendable>(
        _ body: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        let loan = try await acquire()
        defer { release(loan) }
        return try await body(PostgresConnection(loan))
    }

    /// Lends a connection to a body that throws only ``PostgresError``.
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

    /// One statement on a lent connection: see ``PostgresConnection/query(_:)``.
    package func query<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> [Statement.Row] {
        var pipeline = PostgresPipeline()
        let handle = pipeline.append(statement)
        return try await run(pipeline).rows(handle)
    }

    /// One statement on a lent connection: see ``PostgresConnection/execute(_:)``.
    package func execute<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> Int {
        try await lending { connection throws(PostgresError) in try await connection.execute(statement) }
    }

    /// Several statements on a lent connection, all or nothing: see ``PostgresConnection/run(_:commits:)``.
    package func run(
        _ pipeline: PostgresPipeline, commits: Bool = false
    ) async throws(PostgresError) -> PostgresPipelineResults {
        try await lending { connection throws(PostgresError) in
            try await connection.run(pipeline, commits: commits)
        }
    }

    /// Runs a statement on every connection that is made from now on, before it is lent. A connection on which it fails
    /// counts as failed; before the first migration, without its tables and functions, it is left out.
    ///
    /// - Parameter finished: called with the rows on the connection's thread, which it must not block.
    package func prepareConnections<Statement: PostgresStatement>(
        with statement: Statement, finished: @escaping @Sendable ([Statement.Row]) -> Void
    ) {
        let preparation: ConnectionThread.Preparation = { driver throws(PostgresError) in
            if let rows = try driver.prepare(with: statement) { finished(rows) }
        }
        preparations.withLock { $0.append(preparation) }
    }

    /// Refuses new and waiting callers, waits until every lent connection is returned, and closes all.
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
            for thread in state.attempts { thread.stop() }
        }
    }
}

/// Lending.
extension PostgresPool {
    /// Waits for a connection, and replaces it if it was lost while idle.
    private func acquire() async throws(PostgresError) -> PostgresConnection.Loan {
        let deadline = ContinuousClock.now + configuration.acquireTimeout
        let inBackground = Self.isInBackground
        while true {
            let immediate = state.withLock { state in
                state.hasWaiters(inBackground: inBackground) ? nil : state.lease(inBackground: inBackground)
            }
            let lease = if let immediate { immediate } else { await waited(until: deadline, inBackground) }
            let thread = try lease.get()
            let loan = PostgresConnection.Loan(of: thread, isInBackground: inBackground)
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
            if loan.isInBackground { state.lentInBackground -= 1 }
            // The idle connections are to the same server.
            if isReadOnly { closeIdle(&state) }
            // Under the lock: `closed` looks for a lost connection among the idle ones.
            guard loan.isReusable, !state.isShutDown else { return false }
            state.idle.append(loan.thread)
            return true
        }
        if !isKept { loan.thread.stop() }
    }

    private func waited(until deadline: ContinuousClock.Instant, _ inBackground: Bool) async -> PoolState.Lease {
        let begun = ContinuousClock.now
        let lease = await wait(until: deadline, inBackground)
        if inBackground { return lease }
        state.withLock { state in
            state.waits += 1
            state.waitingTime += begun.duration(to: .now)
            if case .failure(let error) = lease, error.kind == .poolTimeout { state.timeouts += 1 }
        }
        return lease
    }

    private func wait(until deadline: ContinuousClock.Instant, _ inBackground: Bool) async -> PoolState.Lease {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        async let _ = expire(id, at: deadline)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                change { state in
                    state.waiters.append(
                        PoolState.Waiter(id: id, isInBackground: inBackground, continuation: continuation))
                }
                // The handler may have run before there was a waiter.
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

    /// Refuses a waiter, and returns whether it still waited.
    @discardableResult
    private func refuse(_ id: UInt64, _ error: PostgresError) -> Bool {
        guard let waiter = state.withLock({ $0.takeWaiter(id) }) else { return false }
        waiter.continuation.resume(returning: .failure(error))
        return true
    }

    /// Changes the state, then serves waiters, and makes connections for the others.
    @discardableResult
    private func change<Value>(_ body: (inout PoolState) -> Value) -> Value {
        let (value, served, places, shutdowns) = state.withLock { state in
            (body(&state), state.servedWaiters(), state.takePlaces(), state.finishedShutdowns())
        }
        for (waiter, lease) in served { waiter.continuation.resume(returning: lease) }
        for shutdown in shutdowns { shutdown.resume() }
        for _ in 0..<places { connect() }
        return value
    }

    private func closeIdle(_ state: inout PoolState) {
        for thread in state.idle { thread.stop() }
        state.idle = []
    }
}

/// Connecting.
extension PostgresPool {
    /// Starts an attempt, in a place taken for it.
    private func connect() {
        let thread: ConnectionThread
        do throws(PostgresError) {
            thread = try ConnectionThread()
        } catch {
            return abandonAttempt(nil, error)
        }
        let isWanted = state.withLock { state in
            state.attempts.append(thread)
            return !state.isShutDown
        }
        do throws(PostgresError) {
            try thread.start(
                configuration: configuration, logger: logger, preparations: preparations.withLock { $0 },
                opened: { [weak self] in self?.opened(thread) },
                closed: { [weak self] error, wasOpen in self?.closed(thread, wasOpen: wasOpen, because: error) })
        } catch {
            return abandonAttempt(thread, error)
        }
        if !isWanted { thread.stop() }
    }

    /// Ends an attempt for which the process has no descriptor or thread.
    private func abandonAttempt(_ thread: ConnectionThread?, _ error: PostgresError) {
        _ = failed(error)
        failWaiters(error)
        change { state in
            state.attempts.removeAll { $0 === thread }
            state.connecting -= 1
        }
    }

    private func opened(_ thread: ConnectionThread) {
        let isWanted = change { state in
            state.attempts.removeAll { $0 === thread }
            state.connecting -= 1
            state.open += 1
            state.failures = 0
            if !state.isShutDown { state.idle.append(thread) }
            return !state.isShutDown
        }
        if !isWanted { thread.stop() }
    }

    /// Runs on the connection's thread at its end. A failed attempt keeps its place during the back-off.
    private func closed(_ thread: ConnectionThread, wasOpen: Bool, because error: PostgresError?) {
        if wasOpen {
            if let error { warn(error) }
            change { state in
                state.open -= 1
                state.idle.removeAll { $0 === thread }
            }
            return
        }
        if let error {
            let delay = failed(error)
            // Waiting helps if the server is away, not with a wrong password.
            if !error.isRetriable { failWaiters(error) }
            thread.pause(until: .now + delay)
        }
        change { state in
            state.attempts.removeAll { $0 === thread }
            state.connecting -= 1
        }
    }

    /// Notes a failed attempt.
    ///
    /// - Returns: the time to wait before the next one.
    private func failed(_ error: PostgresError) -> Duration {
        warn(error)
        let failures = state.withLock { state in
            state.failures += 1
            state.lastError = error
            return state.failures
        }
        return configuration.connectBackoff.delay(attempt: failures, jitter: .random(in: 0..<1))
    }

    private func failWaiters(_ error: PostgresError) {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.continuation.resume(returning: .failure(error)) }
    }

    private func warn(_ error: PostgresError) {
        logger.warning("a connection to PostgreSQL failed or was lost", metadata: ["error": "\(error)"])
    }
}

/// Connections of the pool and waiting callers.
struct PoolState {
    typealias Lease = Result<ConnectionThread, PostgresError>

    struct Waiter {
        let id: UInt64
        let isInBackground: Bool
        let continuation: CheckedContinuation<Lease, Never>
    }

    let maximum: Int
    /// Most connections that background work holds.
    let backgroundMaximum: Int
    var isShutDown = false
    /// Number of open connections.
    var open = 0
    var lent = 0
    /// Number of lent connections that background work holds.
    var lentInBackground = 0
    /// Number of attempts to connect, including those in back-off.
    var connecting = 0
    /// Threads of the attempts.
    var attempts: [ConnectionThread] = []
    /// Unused connections; the one used last is lent first, since its caches are warm.
    var idle: [ConnectionThread] = []
    /// In the order of arrival.
    var waiters: [Waiter] = []
    /// Number of failed attempts since the last success, and the last error.
    var failures = 0
    var lastError: PostgresError?
    /// Counts of callers that had to wait.
    var waits = 0
    var waitingTime = Duration.zero
    var timeouts = 0
    var nextWaiter: UInt64 = 0
    var shutdowns: [CheckedContinuation<Void, Never>] = []

    /// Lends an idle connection, or refuses the caller after the shutdown; nil if the caller has to wait.
    mutating func lease(inBackground: Bool) -> Lease? {
        if isShutDown { return .failure(PostgresError(.shutdown, "the connection pool is shut down")) }
        if inBackground, lentInBackground >= backgroundMaximum { return nil }
        guard let connection = idle.popLast() else { return nil }
        lent += 1
        if inBackground { lentInBackground += 1 }
        return .success(connection)
    }

    /// Whether callers wait that come before a new one.
    func hasWaiters(inBackground: Bool) -> Bool {
        inBackground ? !waiters.isEmpty : waiters.contains { !$0.isInBackground }
    }

    /// Removes the waiters that are served or refused.
    mutating func servedWaiters() -> [(waiter: Waiter, lease: Lease)] {
        var served: [(waiter: Waiter, lease: Lease)] = []
        var index = 0
        while index < waiters.count, isShutDown || !idle.isEmpty {
            guard let lease = lease(inBackground: waiters[index].isInBackground) else {
                index += 1
                continue
            }
            served.append((waiters.remove(at: index), lease))
        }
        return served
    }

    mutating func takeWaiter(_ id: UInt64) -> Waiter? {
        waiters.firstIndex { $0.id == id }.map { waiters.remove(at: $0) }
    }

    /// Takes places for new connections, one for each waiter that may have one, or one in all while attempts fail.
    /// Returns their number.
    mutating func takePlaces() -> Int {
        guard !isShutDown else { return 0 }
        let background = waiters.count { $0.isInBackground }
        let waiting = waiters.count - background + min(background, max(0, backgroundMaximum - lentInBackground))
        let wanted = failures > 0 ? min(1, waiting) : waiting
        let places = max(0, min(wanted - connecting, maximum - open - connecting))
        connecting += places
        return places
    }

    /// The continuations of ``PostgresPool/shutdown()`` once all connections are closed.
    mutating func finishedShutdowns() -> [CheckedContinuation<Void, Never>] {
        guard isShutDown, open == 0, lent == 0, connecting == 0 else { return [] }
        defer { shutdowns = [] }
        return shutdowns
    }

    /// Error of a caller at its time limit.
    func timeoutError(after time: Duration) -> PostgresError {
        if failures > 0, let lastError { return lastError }
        return PostgresError(
            .poolTimeout, "no connection became free within \(time): \(lent) of \(maximum) are in use")
    }
}
