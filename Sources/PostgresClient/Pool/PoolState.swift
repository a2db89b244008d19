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
    var waits = PostgresPool.Waits()
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

    /// Takes places for new connections, one for each waiter that may have one, or one in all while attempts fail. Returns
    /// their number.
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
