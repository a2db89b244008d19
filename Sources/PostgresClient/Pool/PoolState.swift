/// Connections of the pool and the callers that wait for one.
struct PoolState {
    /// What a caller gets.
    enum Turn: Sendable {
        case connection(ConnectionThread)
        /// A place for a connection, which the caller makes.
        case place
        case refusal(PostgresError)
    }

    struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Turn, Never>
    }

    let maximum: Int
    var isShutDown = false
    /// Number of connections that are made and not lost.
    var open = 0
    var lent = 0
    /// Number of callers that have a place for a connection.
    var connecting = 0
    /// Connections that nobody uses; the one used last is lent first, so that its caches are warm.
    var idle: [ConnectionThread] = []
    /// In the order of arrival.
    var waiters: [Waiter] = []
    /// Number of attempts to connect that failed since one succeeded, and the error of the last one.
    var failures = 0
    var lastError: PostgresError?
    var waits = PostgresPool.Waits()
    var nextWaiter: UInt64 = 0
    var shutdowns: [CheckedContinuation<Void, Never>] = []

    /// What the next caller gets; nil: it has to wait.
    ///
    /// While attempts to connect fail, one caller at a time makes them.
    mutating func nextTurn() -> Turn? {
        if isShutDown { return .refusal(PostgresError(.shutdown, "the connection pool is shut down")) }
        if let connection = idle.popLast() {
            lent += 1
            return .connection(connection)
        }
        guard open + connecting < maximum, failures == 0 || connecting == 0 else { return nil }
        connecting += 1
        return .place
    }

    /// Removes the waiters that need not wait any more.
    mutating func servedWaiters() -> [(waiter: Waiter, turn: Turn)] {
        var served: [(waiter: Waiter, turn: Turn)] = []
        while let waiter = waiters.first, let turn = nextTurn() {
            waiters.removeFirst()
            served.append((waiter, turn))
        }
        return served
    }

    mutating func takeWaiter(_ id: UInt64) -> Waiter? {
        waiters.firstIndex { $0.id == id }.map { waiters.remove(at: $0) }
    }

    /// The continuations of ``PostgresPool/shutdown()`` once all connections are closed.
    mutating func finishedShutdowns() -> [CheckedContinuation<Void, Never>] {
        guard isShutDown, open == 0, lent == 0 else { return [] }
        defer { shutdowns = [] }
        return shutdowns
    }

    /// Error of a caller that has waited as long as it may.
    func timeoutError(after time: Duration) -> PostgresError {
        if failures > 0, let lastError { return lastError }
        return PostgresError(
            .poolTimeout, "no connection became free within \(time): \(lent) of \(maximum) are in use")
    }
}
