// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import PostgresClient

/// PostgreSQL's error codes (appendix A of its documentation) by class: transient errors, an event's own errors, and
/// errors that require smaller batches.
@Suite("Classification of SQLSTATEs")
struct ErrorClassTests {
    enum Meaning: Sendable {
        /// A retry may succeed.
        case retry
        /// A retry may succeed, preferably with a smaller batch.
        case retryWithLess
        /// A value is invalid.
        case data
        /// Neither: an operator has to act, and nothing may be dropped before.
        case wait
    }

    static let table: [(state: String, meaning: Meaning)] = [
        ("01000", .wait), ("02000", .wait), ("03000", .wait),
        ("08000", .retry), ("08003", .retry), ("08006", .retry), ("08001", .retry), ("08004", .retry),
        ("08007", .retry), ("08P01", .retry),
        ("09000", .wait), ("0A000", .wait), ("0B000", .wait), ("0F000", .wait), ("0L000", .wait), ("0P000", .wait),
        ("0Z000", .wait), ("20000", .wait), ("21000", .wait),
        ("22000", .data), ("22001", .data), ("22003", .data), ("22004", .data), ("22008", .data), ("22012", .data),
        ("22021", .data), ("22023", .data), ("22025", .data), ("22026", .data), ("22P02", .data), ("22P03", .data),
        ("22P05", .data), ("22030", .data), ("22032", .data),
        ("23000", .data), ("23001", .data), ("23502", .data), ("23503", .data), ("23505", .data), ("23514", .data),
        ("23P01", .data),
        ("24000", .wait), ("25000", .wait), ("25001", .wait), ("25P01", .wait), ("25P02", .wait),
        ("25006", .retry), ("25P03", .retry), ("25P04", .retry),
        ("26000", .retry), ("27000", .wait), ("28000", .wait), ("28P01", .wait), ("2B000", .wait), ("2D000", .wait),
        ("2F000", .wait), ("34000", .wait), ("38000", .wait), ("39000", .wait), ("3B000", .wait), ("3D000", .wait),
        ("3F000", .wait),
        ("40000", .retry), ("40001", .retry), ("40002", .retry), ("40003", .retry), ("40P01", .retry),
        ("42000", .wait), ("42501", .wait), ("42601", .wait), ("42703", .wait), ("42883", .wait), ("42P01", .wait),
        ("42P05", .retry), ("44000", .wait),
        ("53000", .retry), ("53100", .retry), ("53200", .retryWithLess), ("53300", .retry), ("53400", .retryWithLess),
        ("54000", .data), ("54001", .data), ("54011", .data), ("54023", .data),
        ("55000", .wait), ("55006", .retry), ("55P02", .wait), ("55P03", .retry), ("55P04", .wait),
        ("57000", .wait), ("57014", .retryWithLess), ("57P01", .retry), ("57P02", .retry), ("57P03", .retry),
        ("57P04", .wait), ("57P05", .retry),
        ("58000", .retry), ("58030", .retry), ("58P01", .retry), ("58P02", .retry),
        ("72000", .retry), ("F0000", .wait), ("F0001", .wait), ("HV000", .wait), ("P0001", .wait), ("P0004", .wait),
        ("XX000", .wait), ("XX001", .wait), ("XX002", .wait), ("FR001", .wait),
    ]

    @Test(arguments: table)
    func ofAServersError(state: String, meaning: Meaning) {
        let error = PostgresError(.server, "m", sqlState: state)
        #expect(error.isRetriable == (meaning == .retry || meaning == .retryWithLess))
        #expect(error.asksForLess == (meaning == .retryWithLess))
        #expect(error.blamesData == (meaning == .data))
    }

    @Test(arguments: table)
    func anErrorThatEndedItsConnectionBlamesNothingButTheConnection(state: String, meaning: Meaning) {
        let error = PostgresError(.server, "m", sqlState: state).lostWithConnection
        #expect(error.kind == .connection && !error.blamesData && !error.asksForLess)
        #expect(error.isRetriable == (meaning != .data))
    }

    @Test func ofWhatHasNoState() {
        #expect(PostgresError(.encoding, "m").blamesData)
        for kind in [PostgresError.Kind.connection, .poolTimeout] {
            #expect(PostgresError(kind, "m").isRetriable && !PostgresError(kind, "m").blamesData)
        }
        for kind in [PostgresError.Kind.configuration, .cancelled, .decoding, .misuse, .shutdown, .migration, .server] {
            #expect(!PostgresError(kind, "m").isRetriable && !PostgresError(kind, "m").blamesData)
        }
    }
}
