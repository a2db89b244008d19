// SPDX-License-Identifier: Apache-2.0

import Waiting

/// Address of the database, and settings of the pool.
package struct PostgresConfiguration: Sendable {
    /// libpq's `keyword=value …` or URI; every libpq keyword is allowed (TLS, several hosts, service files, …).
    ///
    /// Defaults are added for `application_name`, `connect_timeout`, and keep-alives that detect a dead peer within a
    /// minute. With several hosts, the default of `target_session_attrs` is `read-write`, so that the pool uses the
    /// primary after a failover; set `any` for reading only. The client encoding is always UTF-8, `jit` is off, and
    /// transactions are READ COMMITTED. With `sslmode=verify-full` and no `sslrootcert`, the authorities are those of
    /// the system.
    package var connectionString: String
    /// Most connections of the pool.
    package var maximumConnections = 8
    /// Time that a caller waits for a connection before it gets the last connection error, or `.poolTimeout`.
    package var acquireTimeout = Duration.seconds(10)
    /// `statement_timeout` of every connection; nil for the server's.
    package var statementTimeout: Duration? = .seconds(30)
    /// `idle_in_transaction_session_timeout` of every connection, which ends the locks of a stopped process; nil for
    /// the server's.
    package var idleInTransactionTimeout: Duration? = .seconds(60)
    /// Time limit of an attempt to connect to one host, unless the connection string has one.
    package var connectTimeout = Duration.seconds(5)
    /// Time that a cancelled statement may take before its connection is closed, and that a server may stay silent
    /// after a statement timeout.
    package var cancelTimeout = Duration.seconds(5)
    /// Shown in `pg_stat_activity`.
    package var applicationName = "freshet"
    /// Files that may hold the system's authorities for certificates; the first one that exists is used. libpq 15 has
    /// no setting for them.
    package var certificateBundles = ConnectionString.systemBundles
    /// Longest wait between attempts to connect while the server is gone.
    package var maximumBackoff = Duration.seconds(2)

    /// Most connections that background work holds at a time.
    package var backgroundConnections: Int { max(1, maximumConnections / 4) }

    package init(connectionString: String) {
        self.connectionString = connectionString
    }

    /// Checks everything that can be checked without a server. The error never contains the password.
    package func validate() throws(PostgresError) {
        guard (1...1000).contains(maximumConnections) else {
            throw PostgresError(.configuration, "maximumConnections is \(maximumConnections), not within 1 to 1000")
        }
        for (name, duration) in [
            ("acquireTimeout", acquireTimeout), ("connectTimeout", connectTimeout), ("cancelTimeout", cancelTimeout),
            ("statementTimeout", statementTimeout), ("idleInTransactionTimeout", idleInTransactionTimeout),
        ] {
            // PostgreSQL holds timeouts as 32-bit milliseconds, and reads 0 as "none".
            guard let duration else { continue }
            guard duration >= .milliseconds(1), duration <= .milliseconds(Int32.max) else {
                throw PostgresError(.configuration, "\(name) is \(duration), not within 1 ms to 24 days")
            }
        }
        try ConnectionString(parsing: connectionString).validate()
    }

    /// Delays between attempts to connect, each between half of the bound and all of it.
    var connectBackoff: Backoff { Backoff(base: .milliseconds(50), cap: maximumBackoff) }
}
