// SPDX-License-Identifier: Apache-2.0

import Crypto

/// A statement that a connection has prepared: by text and by the declared types of its parameters.
struct StatementKey: Hashable {
    let sql: String
    let types: [UInt32]

    /// Texts have some thousand bytes, and mostly differ in length. A text that shares its memory with the other one, as
    /// constants do, is equal without a comparison of bytes.
    func hash(into hasher: inout Hasher) {
        hasher.combine(sql.utf8.count)
        hasher.combine(types.count)
    }

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

/// One message of a round trip to the server, in the order in which they are sent and answered.
enum RoundTripUnit {
    case begin
    case commit
    case rollback
    case deallocateAll
    case prepare(key: StatementKey, name: String, for: String)
    /// `isOld`: the statement was prepared in an earlier round trip.
    case execute(item: Int, name: String, isOld: Bool)

    var isCommit: Bool { if case .commit = self { true } else { false } }
}
