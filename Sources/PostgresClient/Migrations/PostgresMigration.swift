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

/// The table of applied migrations and its statements.
enum MigrationTable {
    static let create = """
        CREATE TABLE IF NOT EXISTS freshet_migration (
            version int PRIMARY KEY,
            name text NOT NULL,
            checksum bytea NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
        )
        """

    static func exists() -> PostgresQuery<Bool> {
        PostgresQuery("SELECT pg_catalog.to_regclass('freshet_migration') IS NOT NULL AS exists") { row in
            try row.value("exists")
        }
    }

    static func encoding() -> PostgresQuery<String> {
        PostgresQuery("SELECT pg_catalog.current_setting('server_encoding') AS encoding") { row in
            try row.value("encoding")
        }
    }

    static func applied() -> PostgresQuery<(version: Int, name: String, checksum: [UInt8])> {
        PostgresQuery("SELECT version, name, checksum FROM freshet_migration ORDER BY version") { row in
            (version: try row.value("version"), name: try row.value("name"), checksum: try row.value("checksum"))
        }
    }

    static func insert(_ migration: PostgresMigration) -> PostgresQuery<Void> {
        PostgresQuery(
            "INSERT INTO freshet_migration (version, name, checksum) VALUES ($1::int8::int4, $2::text, $3::bytea)",
            migration.version, migration.name, migration.checksum)
    }

    /// Session lock of the migrating process, which its transactions do not release. The number is "freshet" in ASCII.
    static func lock() -> PostgresQuery<Void> {
        PostgresQuery("SELECT pg_catalog.pg_advisory_lock(28836227850495348)")
    }
}
