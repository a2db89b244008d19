// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Testing

struct ConfigurationTests {
    private func error(_ string: String) -> PostgresError? {
        do throws(PostgresError) {
            try PostgresConfiguration(connectionString: string).validate()
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [
        "", "host=db1,db2 port=5432,5433 target_session_attrs=read-write dbname=freshet",
        "postgresql://user:p%40ss@db:5432/freshet?sslmode=verify-full&sslrootcert=/ca.pem",
        "service=prod sslmode=require channel_binding=prefer",
    ])
    func validStringsAreAccepted(string: String) {
        #expect(error(string) == nil)
    }

    @Test(arguments: [
        ("sslmode=banana", "sslmode"), ("nonsense=1", "nonsense"), ("host=a port=none", "port"),
        ("port=70000", "70000"), ("host", "missing"), ("postgresql://h/d?sslmod=require", "sslmod"),
        ("target_session_attrs=any-old", "target_session_attrs"), ("host=a\0b", "NUL"),
    ])
    func mistakesAreNamed(string: String, word: String) {
        let error = error(string)
        #expect(error?.kind == .configuration)
        #expect(error?.isRetriable == false)
        #expect(error?.message.contains(word) == true, "\(error?.message ?? "")")
    }

    @Test(arguments: [
        "password=hunter2 extra", "password=a hunter2", "postgresql://u:hunter2@h:port/d",
        "postgresql://u:hunter2@[::1/d", "postgresql://u:hunter2%zz@h/d", "host=h password='hunter2",
        "user=u pass=hunter2 hunter2=\"hunter2\" x",
    ])
    func errorsNeverHoldThePassword(string: String) {
        if let error = error(string) { #expect(!error.description.contains("hunter2")) }
    }

    @Test func limitsOutOfRangeAreErrors() {
        func error(_ change: (inout PostgresConfiguration) -> Void) -> PostgresError? {
            var configuration = PostgresConfiguration(connectionString: "")
            change(&configuration)
            do throws(PostgresError) {
                try configuration.validate()
                return nil
            } catch {
                return error
            }
        }
        #expect(error { _ in } == nil)
        #expect(error { $0.maximumConnections = 0 }?.message.contains("maximumConnections") == true)
        #expect(error { $0.acquireTimeout = .zero }?.message.contains("acquireTimeout") == true)
        #expect(error { $0.statementTimeout = .seconds(-1) }?.message.contains("statementTimeout") == true)
        #expect(error { $0.statementTimeout = nil } == nil)
        #expect(error { $0.connectTimeout = .seconds(10_000_000) }?.message.contains("connectTimeout") == true)
    }
}

struct ErrorTests {
    @Test(arguments: ["40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300", "25006", "08006", "25P03"])
    func whatMayPassCanBeRetried(state: String) {
        #expect(PostgresError(.server, "", sqlState: state).isRetriable)
    }

    @Test(arguments: ["23505", "42601", "22P02", "0A000", "28P01"])
    func whatStaysCannotBeRetried(state: String) {
        #expect(!PostgresError(.server, "", sqlState: state).isRetriable)
    }

    @Test func kindsWithoutAStateSayWhetherToRetry() {
        #expect(PostgresError(.connection, "").isRetriable)
        #expect(PostgresError(.poolTimeout, "").isRetriable)
        for kind in [
            PostgresError.Kind.configuration, .server, .cancelled, .encoding, .decoding, .misuse, .shutdown, .migration,
        ] {
            #expect(!PostgresError(kind, "").isRetriable)
        }
    }

    @Test func theDescriptionHasWhatALogNeedsAndNoRowValues() {
        let error = PostgresError(
            .server, "duplicate key", sqlState: "23505", detail: "Key (id)=(secret)", hint: "try another",
            constraint: "item_pkey", statement: "InsertItem", commitOutcomeUnknown: true)
        #expect(
            error.description == "PostgreSQL server error 23505 in InsertItem: duplicate key (constraint item_pkey); "
                + "hint: try another; whether it was committed is unknown")
    }
}
