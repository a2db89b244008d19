// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
import Synchronization

/// Time after which a silent worker process is forgotten; longer than any lease.
let workerMemory = "interval '10 minutes'"

private let registerWorkerSQL = """
    WITH gone AS (
        DELETE FROM worker WHERE seen_at < now() - 2 * \(workerMemory) AND id <> $1::uuid
    ), mine AS (
        INSERT INTO worker (id) VALUES ($1::uuid) ON CONFLICT (id) DO UPDATE SET seen_at = now(), left_token = NULL
    )
    SELECT EXISTS (
        SELECT FROM worker o WHERE o.id <> $1::uuid AND o.left_token IS NULL AND o.seen_at > now() - \(workerMemory)
    ) AS others
    """

private let otherWorkersSQL = """
    SELECT EXISTS (
        SELECT FROM worker o
        WHERE o.id IS DISTINCT FROM $1::uuid AND o.left_token IS NULL
            AND o.seen_at > now() - \(workerMemory)) AS others
    """

/// Bits of a token that count within one history of the database.
private let tokenBits: Int64 = 32

/// Distance of the jump after a failover or a restore: more tokens than lost history can have issued.
private let jump: Int64 = 1 << tokenBits

/// Distance of the jump after a crash: more tokens than transactions can have taken whose WAL was not yet on disk.
private let jumpAfterCrash: Int64 = 1 << 20

/// SQL expression: makes the transaction's COMMIT return before its WAL is on disk.
let commitsAsynchronously = "set_config('synchronous_commit', 'off', true)"

/// SQL condition: a revision was issued before the database's last failover or restore. Something else may have been
/// published since, by history that was lost. All revisions count as such once in 2^32 tokens.
func isOfEarlierHistory(_ revision: String) -> String {
    "\(revision) >> \(tokenBits) <> (SELECT last_value >> \(tokenBits) FROM token)"
}

extension ClaimedTimeline {
    /// Whether its content was stored before the database's last failover or restore, and the token was issued after
    /// it. Other content may have been published since, by history that was lost.
    package func isOfEarlierHistory(than token: Int64) -> Bool { contentRevision >> tokenBits != token >> tokenBits }
}

/// The database's identity and the WAL timeline of what it writes now.
package struct TokenOrigin: Hashable, Sendable {
    package let systemIdentifier: Int64
    package let walTimeline: Int32
    /// A token that is not below any token issued until now.
    package let latestToken: Int64
    /// Whether the tokens jumped, since they were last issued under another origin.
    package let hasJumped: Bool

    func isSameHistory(as other: TokenOrigin) -> Bool {
        systemIdentifier == other.systemIdentifier && walTimeline == other.walTimeline
    }
}

private let checkTokenOriginSQL = """
    WITH present AS MATERIALIZED (
        SELECT s.system_identifier, wal_timeline() AS wal_timeline FROM pg_control_system() s
    ), changed AS (
        UPDATE token_origin o SET system_identifier = p.system_identifier, wal_timeline = p.wal_timeline
        FROM present p
        WHERE (o.system_identifier, o.wal_timeline) IS DISTINCT FROM (p.system_identifier, p.wal_timeline)
        RETURNING setval('token', nextval('token') + \(jump)) AS token
    ), recovered AS (
        INSERT INTO server_run DEFAULT VALUES ON CONFLICT DO NOTHING
        RETURNING setval('token', nextval('token') + \(jumpAfterCrash)) AS token
    )
    SELECT p.system_identifier, p.wal_timeline, EXISTS (SELECT FROM changed) AS jumped,
           greatest((SELECT c.token FROM changed c), (SELECT r.token FROM recovered r),
               (SELECT t.last_value FROM token t)) AS latest
    FROM present p
    """

extension PostgresStatement where Self == Statements {
    /// Registers a worker process, before its first claim and every few seconds after it, and forgets those that have
    /// long been silent.
    ///
    /// A killed process stays registered until it is forgotten, and one that stops in order leaves the latest token. So
    /// a process that is alone knows that no other one has published since it leased its lists. Answers whether other
    /// workers are registered.
    package static func registerWorker(_ id: UInt128) -> PostgresQuery<Bool> {
        PostgresQuery(registerWorkerSQL, id) { row in try row.value("others") }
    }

    /// Notes that a worker process has stopped in order: all its messages are acknowledged or given up.
    package static func leaveWorkers(_ id: UInt128) -> PostgresQuery<Void> {
        PostgresQuery("UPDATE worker SET left_token = (SELECT last_value FROM token) WHERE id = $1::uuid", id)
    }

    /// Answers whether workers besides this process's own are registered.
    ///
    /// - Parameter id: this process's worker; nil: it has none.
    package static func otherWorkers(than id: UInt128?) -> PostgresQuery<Bool> {
        PostgresQuery(otherWorkersSQL, id) { row in try row.value("others") }
    }

    /// The next token, for timelines that are read again under a lease: a token taken after the reading is above every
    /// revision that was read.
    package static func nextToken() -> PostgresQuery<Int64> {
        PostgresQuery("SELECT nextval('token') AS token") { row in try row.value("token") }
    }

    /// Whether a process has connected since the last failover or restore, and the number of those that processes have
    /// found. Changes nothing.
    package static func tokenHistory() -> PostgresQuery<(isKnown: Bool, jumps: Int64)> {
        PostgresQuery(
            """
            SELECT (o.system_identifier, o.wal_timeline)
                       IS NOT DISTINCT FROM (s.system_identifier, wal_timeline()) AS known,
                   (SELECT last_value >> \(tokenBits) FROM token) AS jumps
            FROM token_origin o, pg_control_system() s
            """
        ) { row in try (isKnown: row.value("known"), jumps: row.value("jumps")) }
    }

    /// Compares the server's identity and WAL timeline with those under which tokens were last issued. If they differ,
    /// after a failover or a restore, the sequence of tokens jumps by 2^32, so that revisions published by lost history
    /// are never used again. After a crash it jumps by 2^20: the last marks and the ends of lists, and with them the
    /// latest tokens, may be lost, but nothing that was published. For each new connection of a process that takes
    /// tokens, before the first one. The row lock lets one connection jump; the others find the new origin. `setval` runs
    /// after it, so that no connection continues with an earlier token.
    package static func checkTokenOrigin() -> PostgresQuery<TokenOrigin> {
        PostgresQuery(checkTokenOriginSQL) { row in
            try TokenOrigin(
                systemIdentifier: row.value("system_identifier"), walTimeline: row.value("wal_timeline"),
                latestToken: row.value("latest"), hasJumped: row.value("jumped"))
        }
    }
}

/// The history of the database as the connections of one pool find it. Each new connection checks the origin of the
/// tokens before it is lent, so that nothing of the pool takes a token of lost history.
package final class DatabaseHistory: Sendable {
    /// Called when a connection finds another history than the ones before, as after a failover or a restore. Tokens up
    /// to the given one are of the history before. Runs before the connection is lent, on its thread, which it must not
    /// block.
    package typealias Observer = @Sendable (_ lostThrough: Int64) -> Void

    private let state = Mutex<(origin: TokenOrigin?, observers: [Observer])>((nil, []))

    /// Lives as long as the pool.
    package init(of pool: PostgresPool) {
        pool.prepareConnections(with: .checkTokenOrigin()) { self.note($0) }
    }

    package func observe(_ observer: @escaping Observer) {
        state.withLock { $0.observers.append(observer) }
    }

    /// Checks a connection of the pool that may be older than this object.
    package func check(on pool: PostgresPool) async throws(PostgresError) {
        note(try await pool.query(.checkTokenOrigin()))
    }

    /// Observers run under the lock: no other connection is lent meanwhile.
    private func note(_ origins: [TokenOrigin]) {
        guard let origin = origins.first else { return }
        state.withLock { state in
            defer { state.origin = origin }
            guard let known = state.origin, origin.hasJumped || !known.isSameHistory(as: origin) else { return }
            for observer in state.observers { observer(origin.latestToken) }
        }
    }
}

/// Sign of life of a loop, to distinguish a hanging loop from an idle one.
///
/// A wait for another system is not a hang: each attempt and each back-off beats.
package final class Heartbeat: Sendable {
    /// Last beat of a loop that is at work; nil while it waits for something to do, however long that takes.
    private let busySince = Mutex<ContinuousClock.Instant?>(nil)
    private let now: @Sendable () -> ContinuousClock.Instant

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.now = now
    }

    /// Notes progress of the loop.
    package func beat() {
        let now = now()
        busySince.withLock { $0 = now }
    }

    /// Notes that the loop is idle or has ended.
    package func rest() {
        busySince.withLock { $0 = nil }
    }

    /// Time at work since the last beat; nil while the loop rests.
    package var silence: Duration? {
        busySince.withLock { $0 }?.duration(to: now())
    }
}
