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
        let digits = Array("0123456789abcdef".utf8)
        var name = "freshet_"
        for byte in hash.finalize().prefix(16) {
            name.unicodeScalars.append(UnicodeScalar(digits[Int(byte >> 4)]))
            name.unicodeScalars.append(UnicodeScalar(digits[Int(byte & 0xF)]))
        }
        return name
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
    enum Ending: Sendable {
        /// The statements belong to an open transaction, or commit by themselves.
        case none
        /// COMMIT follows the statements, but for ``Exchange/followers``.
        case commit
    }

    var items: [PostgresPipeline.Item] = []
    var transaction: TransactionMark?
    var ending = Ending.none
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
