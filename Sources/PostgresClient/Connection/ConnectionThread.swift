// SPDX-License-Identifier: Apache-2.0

import Logging
import Synchronization
import Waiting

/// A connection with its own thread. Callers queue calls; the thread runs them one after the other with blocking waits.
/// Between calls it watches the socket, so that a lost connection is noticed while idle.
final class ConnectionThread: Sendable {
    /// Step that a new connection takes before it is opened for the owner.
    typealias Preparation = @Sendable (ConnectionDriver) throws(PostgresError) -> Void

    /// A queued call. Exactly one of `run` and `fail` is called, once.
    private struct Call: Sendable {
        let id: UInt64
        /// Returns a closure that resumes the caller once the connection is free again.
        let run: @Sendable (ConnectionDriver) -> () -> Void
        let fail: @Sendable (PostgresError) -> Void
    }

    private enum Phase {
        /// Takes calls; the first ones may come before the connection is made.
        case running
        /// Finishes the current call, then closes.
        case stopping
        case closed(PostgresError)
    }

    private struct State {
        var phase = Phase.running
        var queue: [Call] = []
        var current: UInt64?
        var isCurrentCancelled = false
        /// Whether the next borrower would find the connection as new.
        var isClean = true
        /// Whether the server has refused to write.
        var isReadOnly = false
        /// Whether the borrower may have changed settings, such as time limits.
        var hasOwnSettings = false
        /// The socket, while the connection is idle or in use; set to nil before it is closed.
        var socket: Int32?
    }

    /// Calls that may wait; sibling tasks on one connection are few.
    private static let maximumQueue = 64

    let wakeUp: WakeUp
    private let state = Locked(State())
    private let nextCall = Atomic<UInt64>(0)

    init() throws(PostgresError) {
        self.wakeUp = try WakeUp()
    }

    /// Starts the thread, which connects first, and calls back on it: `opened` at most once, then `closed` exactly
    /// once.
    ///
    /// - Parameter closed: called when the connection is gone, or could not be made, and the thread ends; without an
    ///   error if ``stop()`` asked for it.
    /// - Throws: if there is no thread; nothing is called back then.
    func start(
        configuration: PostgresConfiguration, logger: Logger, preparations: [Preparation] = [],
        opened: @escaping @Sendable () -> Void = {},
        notified: @escaping @Sendable (_ channel: String, _ payload: String) -> Void = { _, _ in },
        closed: @escaping @Sendable (PostgresError?, _ wasOpen: Bool) -> Void
    ) throws(PostgresError) {
        do throws(BlockingThread.Failure) {
            try BlockingThread.run("pg-connection") {
                do throws(PostgresError) {
                    let driver = try ConnectionDriver(
                        connecting: configuration, logger: logger, thread: self, notified: notified)
                    for prepare in preparations { try prepare(driver) }
                    self.state.withLock { $0.socket = driver.socket }
                    opened()
                    let ending = self.serve(driver)
                    self.state.withLock { $0.socket = nil }
                    self.close(because: ending ?? PostgresError(.shutdown, "the connection was closed"))
                    closed(ending, true)
                } catch {
                    self.close(because: error)
                    closed(error.kind == .shutdown ? nil : error, false)
                }
            }
        } catch {
            throw PostgresError(.connection, "no thread for a connection: error \(error.errorNumber)")
        }
    }

    /// Runs `body` on the thread. When the calling task is cancelled, so is the call, also on the server, unless it is
    /// `shielded`.
    func perform<Value: Sendable>(
        shielded: Bool = false,
        _ body: @escaping @Sendable (ConnectionDriver) throws(PostgresError) -> Value
    ) async throws(PostgresError) -> Value {
        let id = nextCall.add(1, ordering: .relaxed).newValue
        let result: Result<Value, PostgresError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let call = Call(id: id) { driver in
                    let result = Result { () throws(PostgresError) in try body(driver) }
                    return { continuation.resume(returning: result) }
                } fail: { error in
                    continuation.resume(returning: .failure(error))
                }
                let refusal = state.withLock { state -> PostgresError? in
                    switch state.phase {
                    case .running:
                        guard state.queue.count < Self.maximumQueue else {
                            return PostgresError(
                                .misuse, "more than \(Self.maximumQueue) calls wait for one connection")
                        }
                        state.queue.append(call)
                        return nil
                    case .stopping: return PostgresError(.shutdown, "the connection was closed")
                    case .closed(let error): return error
                    }
                }
                if let refusal { call.fail(refusal) } else { wakeUp.signal() }
                // The handler may have run before there was anything to cancel.
                if !shielded, Task.isCancelled { cancel(id) }
            }
        } onCancel: {
            if !shielded { cancel(id) }
        }
        return try result.get()
    }

    /// Lets the thread end after its current call; queued ones fail.
    func stop() {
        let abandoned = state.withLock { state -> [Call] in
            guard case .running = state.phase else { return [] }
            state.phase = .stopping
            defer { state.queue = [] }
            return state.queue
        }
        for call in abandoned { call.fail(PostgresError(.shutdown, "the connection was closed")) }
        wakeUp.signal()
    }

    /// Whether the connection was idle and quiet a moment ago. When not, ``verify()`` tells.
    var looksUsable: Bool {
        state.withLock { state in
            // Under the lock, since the thread takes the socket away under it before it is closed.
            guard case .running = state.phase, let socket = state.socket else { return false }
            return !WakeUp.hasInput(socket: socket)
        }
    }

    /// Whether the connection can be lent again: nothing under way, and not lost.
    var isReusable: Bool {
        state.withLock { state in
            guard case .running = state.phase else { return false }
            return state.isClean && state.current == nil && state.queue.isEmpty
        }
    }

    /// Whether the server has refused to write.
    var isReadOnly: Bool { state.withLock { $0.isReadOnly } }

    var hasOwnSettings: Bool { state.withLock { $0.hasOwnSettings } }

    func settingsMayChange() { state.withLock { $0.hasOwnSettings = true } }

    /// Reads what has arrived, and throws when the connection is lost.
    func verify() async throws(PostgresError) {
        try await perform(shielded: true) { driver throws(PostgresError) in
            try driver.readInput()
        }
    }

    private func cancel(_ id: UInt64) {
        let removed = state.withLock { state -> Call? in
            if state.current == id {
                state.isCurrentCancelled = true
                return nil
            }
            guard let index = state.queue.firstIndex(where: { $0.id == id }) else { return nil }
            return state.queue.remove(at: index)
        }
        if let removed { removed.fail(.taskCancelled) } else { wakeUp.signal() }
    }
}

extension PostgresError {
    static let taskCancelled = PostgresError(.cancelled, "the task was cancelled")
}

/// On the thread.
extension ConnectionThread {
    /// Whether the caller of the current call has gone.
    var isCurrentCallCancelled: Bool { state.withLock { $0.isCurrentCancelled } }

    var isStopping: Bool {
        state.withLock { state in
            if case .stopping = state.phase { true } else { false }
        }
    }

    /// Runs calls until told to stop (nil), or until the connection is lost; returns the reason.
    private func serve(_ driver: ConnectionDriver) -> PostgresError? {
        while true {
            let (isStopped, next) = state.withLock { state -> (Bool, Call?) in
                guard case .running = state.phase else { return (true, nil) }
                guard !state.queue.isEmpty else { return (false, nil) }
                let call = state.queue.removeFirst()
                state.current = call.id
                state.isCurrentCancelled = false
                return (false, call)
            }
            if isStopped { return nil }
            if let call = next {
                let finish = call.run(driver)
                let (isClean, isReadOnly) = (driver.isClean, driver.isReadOnly)
                state.withLock { state in
                    state.isClean = isClean
                    state.isReadOnly = isReadOnly
                    state.current = nil
                    state.isCurrentCancelled = false
                }
                finish()
            } else {
                driver.waitIdle()
            }
            if let reason = driver.brokenBecause { return reason }
        }
    }

    /// Waits, unless ``stop()`` is called.
    func pause(until deadline: ContinuousClock.Instant) {
        _ = wakeUp.wait(socket: nil, for: [], until: deadline)
    }

    private func close(because error: PostgresError) {
        let abandoned = state.withLock { state -> [Call] in
            state.phase = .closed(error)
            defer { state.queue = [] }
            return state.queue
        }
        // These were never sent.
        for call in abandoned { call.fail(error.replacing(commitOutcomeUnknown: false)) }
    }
}
