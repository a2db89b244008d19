// SPDX-License-Identifier: Apache-2.0

import Crypto

/// One step of the schema, with the SHA-256 of its text as checksum: an applied migration is never edited.
///
/// A migration only adds, since older binaries keep running beside newer ones. The name of a migration that removes
/// something states the number of migrations that a binary must know to run with it: `contract_13_drop_colour` needs a
/// binary with at least 13 migrations, which does without the colour. The number is lower than the migration's own
/// version, since the release before has to keep running too.
package struct PostgresMigration: Sendable, Hashable {
    /// Consecutive number from 1.
    package let version: Int
    package let name: String
    package let sql: String

    package init(version: Int, name: String, sql: String) {
        (self.version, self.name, self.sql) = (version, name, sql)
    }

    /// Number of migrations that a binary must know to use a database with a migration.
    package static func leastKnown(by name: String, version: Int) -> Int {
        let words = name.split(separator: "_", maxSplits: 2, omittingEmptySubsequences: false)
        guard let first = words.first, first == "contract" else { return 0 }
        // Without a number, the binary must know the migration itself.
        return words.count > 1 ? Int(words[1]) ?? version : version
    }

    package var checksum: [UInt8] { Array(SHA256.hash(data: Array(sql.utf8))) }
}

/// Brings a database to this binary's schema.
package struct PostgresMigrator: Sendable {
    package struct Status: Sendable {
        /// In order of version.
        package var applied: [PostgresMigration]
        /// Missing, in order of version.
        package var pending: [PostgresMigration]
        /// Migrations of a newer binary beside which this one may run, in order of version.
        package var newer: [(version: Int, name: String)] = []
    }

    private let migrations: [PostgresMigration]

    package init(migrations: [PostgresMigration]) {
        self.migrations = migrations.sorted { $0.version < $1.version }
    }

    /// Applies the missing migrations, each in its own transaction, under an advisory lock: of two processes that start
    /// at once, one applies them. Statements run without a time limit.
    /// - Returns: The applied migrations.
    /// - Throws: `.migration` if this binary cannot use the database, or an applied migration differs; the error of a
    ///   migration that failed and was rolled back.
    package func apply(on pool: PostgresPool) async throws(PostgresError) -> [PostgresMigration] {
        try await pool.lending { connection throws(PostgresError) in
            // Closing the connection releases the lock and the settings.
            connection.discardAfterUse()
            try await requireUTF8(on: connection)
            try await connection.simple("SET statement_timeout = 0; SET lock_timeout = 0")
            _ = try await connection.execute(.lockMigrations())
            try await connection.simple("SET client_min_messages = warning; \(createMigrationTableSQL)")
            let pending = try await status(on: connection).pending
            for migration in pending { try await apply(migration, on: connection) }
            return pending
        }
    }

    /// Reads the applied and the pending migrations without writing.
    /// - Throws: `.migration` if this binary cannot use the database, or an applied migration differs.
    package func check(on pool: PostgresPool) async throws(PostgresError) -> Status {
        try await pool.lending { connection throws(PostgresError) in
            try await requireUTF8(on: connection)
            guard try await connection.query(.migrationTableExists()) == [true] else {
                try validate()
                return Status(applied: [], pending: migrations)
            }
            return try await status(on: connection)
        }
    }

    /// Texts of other encodings, or of none, cannot hold what events and timelines hold.
    private func requireUTF8(on connection: PostgresConnection) async throws(PostgresError) {
        guard let encoding = try await connection.query(.serverEncoding()).first, encoding != "UTF8" else {
            return
        }
        throw PostgresError(
            .migration, "the database has the encoding \(encoding), and must have UTF8",
            hint: "create it with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0")
    }

    private func status(on connection: PostgresConnection) async throws(PostgresError) -> Status {
        try validate()
        let rows = try await connection.query(.appliedMigrations())
        let newer = rows.dropFirst(migrations.count).map { (version: $0.version, name: $0.name) }
        for row in newer {
            guard PostgresMigration.leastKnown(by: row.name, version: row.version) <= migrations.count else {
                throw PostgresError(
                    .migration,
                    "the database has migration \(row.version) (\(row.name)), after which this binary, which knows "
                        + "\(migrations.count), cannot use it: run a newer one")
            }
        }
        for (row, migration) in zip(rows, migrations) {
            guard row.version == migration.version else {
                throw PostgresError(
                    .migration,
                    "the database has migration \(row.version) (\(row.name)) where \(migration.version) "
                        + "(\(migration.name)) is expected")
            }
            guard row.checksum == migration.checksum else {
                throw PostgresError(
                    .migration,
                    "migration \(migration.version) (\(migration.name)) was changed after it was applied to the database"
                )
            }
        }
        return Status(
            applied: Array(migrations.prefix(rows.count)), pending: Array(migrations.dropFirst(rows.count)),
            newer: newer)
    }

    private func apply(
        _ migration: PostgresMigration, on connection: PostgresConnection
    ) async throws(PostgresError) {
        do {
            try await connection.withTransaction { transaction in
                try await transaction.simple(migration.sql)
                _ = try await transaction.execute(.insertMigration(migration))
            }
        } catch let error as PostgresError {
            throw error.of(statement: "migration \(migration.version) (\(migration.name))")
        } catch {
            throw PostgresError(.migration, "migration \(migration.version) (\(migration.name)): \(error)")
        }
    }

    private func validate() throws(PostgresError) {
        for (index, migration) in migrations.enumerated() where migration.version != index + 1 {
            throw PostgresError(
                .migration, "migration \(migration.version) (\(migration.name)) stands where \(index + 1) is expected")
        }
    }
}

private let createMigrationTableSQL = """
    CREATE TABLE IF NOT EXISTS freshet_migration (
        version int PRIMARY KEY,
        name text NOT NULL,
        checksum bytea NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
    )
    """

extension PostgresStatement where Self == Statements {
    fileprivate static func migrationTableExists() -> PostgresQuery<Bool> {
        PostgresQuery("SELECT pg_catalog.to_regclass('freshet_migration') IS NOT NULL AS exists") { row in
            try row.value("exists")
        }
    }

    fileprivate static func serverEncoding() -> PostgresQuery<String> {
        PostgresQuery("SELECT pg_catalog.current_setting('server_encoding') AS encoding") { row in
            try row.value("encoding")
        }
    }

    fileprivate static func appliedMigrations() -> PostgresQuery<(version: Int, name: String, checksum: [UInt8])> {
        PostgresQuery("SELECT version, name, checksum FROM freshet_migration ORDER BY version") { row in
            (version: try row.value("version"), name: try row.value("name"), checksum: try row.value("checksum"))
        }
    }

    fileprivate static func insertMigration(_ migration: PostgresMigration) -> PostgresQuery<Void> {
        PostgresQuery(
            "INSERT INTO freshet_migration (version, name, checksum) VALUES ($1::int8::int4, $2::text, $3::bytea)",
            migration.version, migration.name, migration.checksum)
    }

    /// Session lock of the migrating process, which its transactions do not release. The number is "freshet" in ASCII.
    fileprivate static func lockMigrations() -> PostgresQuery<Void> {
        PostgresQuery("SELECT pg_catalog.pg_advisory_lock(28836227850495348)")
    }
}
