import Crypto

/// A statement that a connection has prepared: by text and by the declared types of its parameters.
struct StatementKey: Hashable {
    let sql: String
    let types: [UInt32]

    /// The same on every connection: the beginning of the SHA-256 of the text and the types.
    var name: String {
        var hash = SHA256()
        hash.update(data: Array(sql.utf8))
        for type in types {
            hash.update(data: [0] + (0..<4).map { UInt8(truncatingIfNeeded: type >> (24 - 8 * UInt32($0))) })
        }
        let number = hash.finalize().prefix(16).reduce(UInt128(0)) { $0 << 8 | UInt128($1) }
        return "freshet_" + String(number, radix: 16)
    }
}

/// A transaction that calls belong to.
struct TransactionMark: Sendable {
    /// Sent with the transaction's first statement.
    static let begin = "BEGIN ISOLATION LEVEL READ COMMITTED"

    let id: UInt64
}

/// Statements of one round trip.
struct Exchange: Sendable {
    var items: [PostgresPipeline.Item] = []
    var transaction: TransactionMark?
    /// Whether COMMIT follows the statements, except the ``followers``. Otherwise they belong to an open transaction,
    /// or commit by themselves.
    var commits = false
    /// Number of the last statements that are sent after the COMMIT.
    var followers = 0

    /// One message to the server, in the order in which they are sent and answered.
    enum Unit {
        case begin
        case commit
        case rollback
        case deallocateAll
        case prepare(item: Int, key: StatementKey, name: String)
        /// `isOld`: the statement was prepared in an earlier exchange.
        case execute(item: Int, name: String, isOld: Bool)

        var isCommit: Bool { if case .commit = self { true } else { false } }
    }
}
