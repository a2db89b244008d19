import Logging
import PostgresClient

/// `SELECT $1::int8`.
struct SelectOne: PostgresStatement {
    static let sql = "SELECT $1::int8"

    var value: Int

    func bind(_ parameters: inout PostgresParameters) { parameters.append(value) }

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value(0) }
}

struct BackendPID: PostgresStatement {
    static let sql = "SELECT pg_backend_pid()"

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int32 { try row.value(0) }
}

/// Returns once the process has gone.
struct Terminate: PostgresStatement {
    static let sql = "SELECT pg_terminate_backend($1::int4, 10000)"

    var pid: Int32

    func bind(_ parameters: inout PostgresParameters) { parameters.append(pid) }

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value(0) }
}

/// Sleeps on the server, holding an advisory lock, so that others can tell that it runs.
struct Sleep: PostgresStatement {
    static let sql = "SELECT pg_sleep($1::float8)"

    var seconds: Double

    func bind(_ parameters: inout PostgresParameters) { parameters.append(seconds) }
}

/// Waits for an advisory lock, until the transaction ends.
struct TakeLock: PostgresStatement {
    static let sql = "SELECT pg_advisory_xact_lock($1::int8)"

    var key: Int

    func bind(_ parameters: inout PostgresParameters) { parameters.append(key) }
}

/// Returns, after looking again and again on the server, when some other session waits for a lock.
struct AwaitLockWaiter: PostgresStatement {
    static let sql = """
        SELECT await_lock_waiter($1::int8)
        """

    static let define = """
        CREATE FUNCTION await_lock_waiter(number int8) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            FOR i IN 1..2000 LOOP
                PERFORM pg_stat_clear_snapshot();
                IF (SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                    WHERE NOT l.granted AND a.datname = current_database()) >= number THEN RETURN; END IF;
                PERFORM pg_sleep(0.005);
            END LOOP;
            RAISE EXCEPTION 'nobody waits';
        END $$
        """

    var number = 1

    func bind(_ parameters: inout PostgresParameters) { parameters.append(number) }
}

/// Opens once; those who wait before go on then.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Locked(State())

    func open() {
        let waiters = state.withLock { state in
            state.isOpen = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                if !state.isOpen { state.waiters.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }
}

/// Keeps what is logged, and lets a test wait for a message.
final class LogStore: Sendable {
    let lines = Locked<[(level: Logger.Level, message: String)]>([])
    let watchers = Locked<[(fits: @Sendable ((level: Logger.Level, message: String)) -> Bool, gate: Gate)]>([])

    var logger: Logger {
        Logger(label: "test") { _ in Handler(store: self) }
    }

    struct Handler: LogHandler {
        let store: LogStore
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let text = "\(event.message) \(event.metadata.map { "\($0)" } ?? "")"
            let met = store.watchers.withLock { watchers in
                store.lines.withLock { $0.append((event.level, text)) }
                let met = watchers.filter { $0.fits((event.level, text)) }
                watchers.removeAll { $0.fits((event.level, text)) }
                return met
            }
            for watcher in met { watcher.gate.open() }
        }
    }
}

/// The error of `body`, when it is a ``PostgresError``.
func postgresError<Value>(_ body: () async throws -> Value) async -> PostgresError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? PostgresError
    }
}

extension LogStore {
    /// Returns when a line that fits has been logged.
    func wait(_ fits: @escaping @Sendable ((level: Logger.Level, message: String)) -> Bool) async {
        let gate = Gate()
        let isThere = watchers.withLock { watchers in
            // Under the watchers' lock, so that no line comes between the look and the wait.
            let isThere = lines.withLock { $0.contains(where: fits) }
            if !isThere { watchers.append((fits, gate)) }
            return isThere
        }
        if !isThere { await gate.wait() }
    }
}
