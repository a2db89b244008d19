import Logging

/// The pool's state machine and the effects of its actions, shared with its connections and its timer thread.
final class PoolCore: Sendable {
    /// A lent connection.
    struct Lease: Sendable {
        let slot: PoolStateMachine.SlotID
        let loan: PostgresConnection.Loan
    }

    private typealias Waiter = CheckedContinuation<Result<Lease, PostgresError>, Never>

    private struct State {
        var machine: PoolStateMachine
        var threads: [PoolStateMachine.SlotID: ConnectionThread] = [:]
        var waiters: [PoolStateMachine.WaiterID: Waiter] = [:]
        var shutdowns: [CheckedContinuation<Void, Never>] = []
        var lastError: PostgresError?
        var nextWaiter: PoolStateMachine.WaiterID = 0
        var timer: WakeUp?
        var waits = PostgresPool.Waits()
    }

    let configuration: PostgresConfiguration
    private let logger: Logger
    private let state: Locked<State>

    init(configuration: PostgresConfiguration, logger: Logger) {
        self.configuration = configuration
        self.logger = logger
        self.state = Locked(
            State(
                machine: PoolStateMachine(
                    maximum: configuration.maximumConnections, acquireTimeout: configuration.acquireTimeout,
                    backoff: configuration.backoff)))
    }

    var statistics: PostgresPool.Statistics {
        state.withLock { state in
            let machine = state.machine
            return PostgresPool.Statistics(
                open: machine.count(.idle) + machine.count(.lent), idle: machine.count(.idle),
                lent: machine.count(.lent) + machine.count(.orphaned), connecting: machine.count(.connecting),
                waiting: machine.waiting, waits: state.waits)
        }
    }

    /// Waits for a connection, and looks at it before it is lent: one that was lost while idle is replaced.
    func acquire() async throws(PostgresError) -> Lease {
        while true {
            let lease = try await nextLease()
            if lease.loan.thread.looksUsable { return lease }
            do throws(PostgresError) {
                try await lease.loan.thread.verify()
                return lease
            } catch {
                logger.debug("a connection was lost while idle", metadata: ["error": "\(error)"])
                release(lease)
            }
        }
    }

    private func nextLease() async throws(PostgresError) -> Lease {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        let begun = ContinuousClock.now
        var hasToWait = false
        let result: Result<Lease, PostgresError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                perform { state in
                    state.waiters[id] = continuation
                    let actions = state.machine.acquireRequested(id, now: begun)
                    hasToWait = !actions.contains { if case .lend = $0 { true } else { false } }
                    return actions
                }
                // The handler may have run before there was anything to cancel.
                if Task.isCancelled { cancel(id) }
            }
        } onCancel: {
            cancel(id)
        }
        // The thread sanitizer does not see the hand-over through a continuation that was resumed before it was awaited, but
        // it sees this lock, which the resuming thread held.
        state.withLock { state in
            guard hasToWait else { return }
            state.waits.count += 1
            state.waits.time += begun.duration(to: .now)
            if case .failure(let error) = result, error.kind == .poolTimeout { state.waits.timeouts += 1 }
        }
        return try result.get()
    }

    private func cancel(_ id: PoolStateMachine.WaiterID) {
        let waiter = state.withLock { state in
            state.machine.waiterCancelled(id) ? state.waiters.removeValue(forKey: id) : nil
        }
        waiter?.resume(returning: .failure(.taskCancelled))
    }

    func release(_ lease: Lease) {
        lease.loan.end()
        let isReusable = lease.loan.isReusable
        let isReadOnly = lease.loan.thread.isReadOnly
        if isReadOnly {
            logger.warning("the server takes no writes: its connections are closed, and others made")
        }
        perform { state in
            // Idle connections are to the same server, or to one that was primary together with it.
            (isReadOnly ? state.machine.closeIdle() : [])
                + state.machine.connectionReturned(lease.slot, isReusable: isReusable, now: .now)
        }
    }

    func requestShutdown() {
        perform { state in state.machine.shutdownRequested() }
    }

    func shutdown() async {
        await withCheckedContinuation { continuation in
            perform { state in
                state.shutdowns.append(continuation)
                return state.machine.shutdownRequested()
            }
        }
    }
}

extension PoolCore {
    /// Changes the state, and carries out the actions once the lock is released.
    private func perform(_ transition: (inout State) -> [PoolStateMachine.Action]) {
        var effects: [() -> Void] = []
        state.withLock { state in
            for action in transition(&state) {
                if let effect = effect(of: action, on: &state) { effects.append(effect) }
            }
        }
        for effect in effects { effect() }
    }

    /// Effect of an action, for after the lock is released.
    private func effect(of action: PoolStateMachine.Action, on state: inout State) -> (() -> Void)? {
        switch action {
        case .open(let slot):
            return { self.open(slot) }
        case .close(let slot):
            guard let thread = state.threads[slot] else { return nil }
            return { thread.stop() }
        case .lend(let slot, let id):
            guard let waiter = state.waiters.removeValue(forKey: id), let thread = state.threads[slot] else {
                return nil
            }
            let lease = Lease(slot: slot, loan: PostgresConnection.Loan(of: thread))
            return { waiter.resume(returning: .success(lease)) }
        case .fail(let id, let reason):
            guard let waiter = state.waiters.removeValue(forKey: id) else { return nil }
            let error = error(for: reason, state)
            return { waiter.resume(returning: .failure(error)) }
        case .rearmTimer:
            if let timer = state.timer { return { timer.signal() } }
            return startTimer(&state)
        case .finishShutdown:
            let (shutdowns, timer) = (state.shutdowns, state.timer)
            state.shutdowns = []
            return {
                timer?.signal()
                for shutdown in shutdowns { shutdown.resume() }
            }
        }
    }

    private func error(for reason: PoolStateMachine.FailureReason, _ state: State) -> PostgresError {
        switch reason {
        case .poolTimeout:
            let lent = state.machine.count(.lent) + state.machine.count(.orphaned)
            return PostgresError(
                .poolTimeout,
                "no connection became free within \(configuration.acquireTimeout): "
                    + "\(lent) of \(configuration.maximumConnections) are in use")
        case .connectFailed:
            return state.lastError ?? PostgresError(.connection, "no connection could be made")
        case .shutdown:
            return PostgresError(.shutdown, "the connection pool is shut down")
        }
    }

    private func open(_ slot: PoolStateMachine.SlotID) {
        let thread: ConnectionThread
        do throws(PostgresError) {
            thread = try ConnectionThread()
        } catch {
            return closed(slot, because: error)
        }
        let isWanted = state.withLock { state in
            state.threads[slot] = thread
            return state.machine.slots[slot] == .connecting
        }
        thread.start(
            configuration: configuration, logger: logger,
            events: ConnectionThread.Events(
                opened: { self.perform { state in state.machine.connectionOpened(slot, now: .now) } },
                closed: { error in self.closed(slot, because: error) }))
        // The pool was shut down before there was a thread to stop.
        if !isWanted { thread.stop() }
    }

    private func closed(_ slot: PoolStateMachine.SlotID, because error: PostgresError?) {
        if let error {
            logger.warning("a connection to PostgreSQL failed or was lost", metadata: ["error": "\(error)"])
        }
        perform { state in
            if let error { state.lastError = error }
            state.threads[slot] = nil
            return state.machine.connectionClosed(
                slot, isRefused: error.map { !$0.isRetriable } ?? false, now: .now, random: .random(in: 0..<1))
        }
    }
}

/// The timer: one thread, since neither a blocked wait nor a free-floating task belongs on the cooperative pool.
extension PoolCore {
    private func startTimer(_ state: inout State) -> (() -> Void)? {
        do throws(PostgresError) {
            let timer = try WakeUp()
            state.timer = timer
            return { startThread(named: "pg-pool-timer") { self.runTimer(timer) } }
        } catch {
            return { self.timerFailed(error) }
        }
    }

    /// Fails all waiters, which would wait for ever without a timer. The next caller tries to start one again.
    private func timerFailed(_ error: PostgresError) {
        let waiters = state.withLock { state in
            state.lastError = error
            defer { state.waiters = [:] }
            return state.waiters.filter { state.machine.waiterCancelled($0.key) }
        }
        for waiter in waiters.values { waiter.resume(returning: .failure(error)) }
    }

    private func runTimer(_ timer: WakeUp) {
        while true {
            let (isOver, next) = state.withLock { state in
                (state.machine.phase == .shutDown, state.machine.nextTimer)
            }
            if isOver { return }
            let happened = timer.wait(socket: nil, for: [], until: next)
            // Woken only to look at a new time.
            if happened.contains(.woken) { continue }
            perform { state in state.machine.timerFired(now: .now) }
        }
    }
}
