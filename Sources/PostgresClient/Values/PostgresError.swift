// SPDX-License-Identifier: Apache-2.0

/// An error of a connection or statement: its cause, whether a retry can help, and whether the effect is known.
///
/// It has no parameters or passwords. The server's `detail` may quote a row's values ("Key (id)=(…) already exists")
/// and is left out of ``description``, which is logged.
@usableFromInline
package struct PostgresError: Error, Sendable {
    package enum Kind: Sendable, Hashable {
        /// Invalid connection string or setting, or a refused login.
        case configuration
        /// No connection could be made, or it was lost.
        case connection
        /// The server refused a statement, for the reason in ``PostgresError/sqlState``.
        case server
        /// No connection became free within `acquireTimeout`.
        case poolTimeout
        /// The calling task was cancelled. A statement that ran was cancelled on the server as well.
        case cancelled
        /// A value could not be sent: a NUL byte in a text, too many or too large parameters.
        case encoding
        /// A value of a row does not have the expected form.
        case decoding
        /// The API was used against its rules: nested transactions, a connection kept beyond its closure.
        case misuse
        /// The pool is shut down.
        case shutdown
        /// The database's migrations do not fit this binary's.
        case migration
    }

    package let kind: Kind
    /// The primary message, without the statement's text and parameters.
    package let message: String
    /// SQLSTATE, such as `40001`, when the server gave one.
    package let sqlState: String?
    package let detail: String?
    package let hint: String?
    /// Name of the constraint that was violated.
    package let constraint: String?
    /// Type name of the ``PostgresStatement`` that failed, or `BEGIN`, `COMMIT`, `ROLLBACK`.
    package var statement: String?
    /// Whether a retry in a new transaction can succeed. Check ``commitOutcomeUnknown`` first.
    package let isRetriable: Bool
    /// Whether the connection was lost at a COMMIT, or at a statement outside of a transaction, so that the effect is
    /// unknown.
    package let commitOutcomeUnknown: Bool

    package init(
        _ kind: Kind, _ message: String, sqlState: String? = nil, detail: String? = nil, hint: String? = nil,
        constraint: String? = nil, statement: String? = nil, isRetriable: Bool? = nil,
        commitOutcomeUnknown: Bool = false
    ) {
        self.kind = kind
        self.message = message
        self.sqlState = sqlState
        self.detail = detail
        self.hint = hint
        self.constraint = constraint
        self.statement = statement
        self.isRetriable = isRetriable ?? Self.canRetryHelp(kind, sqlState: sqlState)
        self.commitOutcomeUnknown = commitOutcomeUnknown
    }
}

extension PostgresError {
    /// SQLSTATEs after which the same transaction, tried again, may succeed (PostgreSQL's documentation, appendix A).
    private static let retriableStates: Set<String> = [
        "55P03", "55006",  // lock_not_available: lock_timeout, NOWAIT; object_in_use
        "57014",  // query_canceled: statement_timeout, or an administrator; not by our own request, see `cancelled`
        "57P01", "57P02", "57P03",  // admin_shutdown, crash_shutdown, cannot_connect_now
        "57P05", "25P03", "25P04",  // idle sessions and long transactions that the server ended
        "25006",  // read_only_sql_transaction: connected to what is a standby now
        "26000", "42P05",  // a prepared statement is missing or there already: made anew next time
        "72000",  // snapshot_too_old
    ]

    /// Classes that count as a whole: the connection (08), rolled back transactions (deadlock, serialization: 40), want
    /// of resources (disk, memory, connections: 53), the system around the server (I/O errors: 58).
    private static let retriableClasses: Set<Substring> = ["08", "40", "53", "58"]

    static func canRetryHelp(_ kind: Kind, sqlState: String?) -> Bool {
        // A new connection may succeed.
        guard let sqlState, kind != .connection else { return kind == .connection || kind == .poolTimeout }
        return retriableStates.contains(sqlState) || retriableClasses.contains(sqlState.prefix(2))
    }

    /// Whether a bound value caused the error, so that a retry with the same value fails too.
    ///
    /// These are data exceptions (class 22), violated constraints (class 23), program limits (class 54), and values
    /// that cannot be encoded.
    package var blamesData: Bool {
        if isRetriable { return false }
        if kind == .encoding { return true }
        guard kind == .server, let sqlState else { return false }
        return ["22", "23", "54"].contains(sqlState.prefix(2))
    }

    /// Whether a smaller batch may succeed: the statement exceeded its time, the memory, or a configured limit.
    package var asksForLess: Bool {
        kind == .server && ["57014", "53200", "53400"].contains(sqlState)
    }

    /// Whether the server refuses writes, as a standby or read-only.
    var isReadOnly: Bool { sqlState == "25006" }

    /// An error of a row's reading, which may be of another type.
    @usableFromInline
    init(decoding error: any Error) {
        self = error as? PostgresError ?? PostgresError(.decoding, "\(error)")
    }

    /// The same error, naming `statement` unless it names one already.
    func of(statement: String?) -> PostgresError {
        var error = self
        error.statement = error.statement ?? statement
        return error
    }

    /// The same error as the cause of a lost connection.
    var lostWithConnection: PostgresError {
        replacing(kind: .connection, isRetriable: isRetriable || !blamesData)
    }

    /// The same error with corrected properties.
    func replacing(
        kind: Kind? = nil, isRetriable: Bool? = nil, commitOutcomeUnknown: Bool? = nil
    ) -> PostgresError {
        PostgresError(
            kind ?? self.kind, message, sqlState: sqlState, detail: detail, hint: hint, constraint: constraint,
            statement: statement, isRetriable: isRetriable ?? self.isRetriable,
            commitOutcomeUnknown: commitOutcomeUnknown ?? self.commitOutcomeUnknown)
    }
}

extension PostgresError: CustomStringConvertible {
    @usableFromInline
    package var description: String {
        var text = "PostgreSQL \(kind) error"
        if let sqlState { text += " \(sqlState)" }
        if let statement { text += " in \(statement)" }
        text += ": \(message)"
        if let constraint { text += " (constraint \(constraint))" }
        if let hint { text += "; hint: \(hint)" }
        if commitOutcomeUnknown { text += "; whether it was committed is unknown" }
        return text
    }
}
