import Crypto

/// One step of the schema. Its checksum is the SHA-256 of the text: a migration that was applied is never edited.
///
/// Binaries that do not know it go on beside those that do, so a migration only adds. One that takes something away says
/// in its name what binaries must know that are to run with it: `contract_13_drop_colour` is for those that know at least 13
/// migrations, the first of which do without the colour. That number is lower than its own version: the release before,
/// which does not know it, must go on too.
package struct PostgresMigration: Sendable, Hashable {
    /// From 1, each the one before plus one.
    package let version: Int
    package let name: String
    package let sql: String

    package init(version: Int, name: String, sql: String) {
        self.version = version
        self.name = name
        self.sql = sql
    }

    /// How many migrations a binary must know to use a database that has the one with this name.
    package static func leastKnown(by name: String, version: Int) -> Int {
        let words = name.split(separator: "_", maxSplits: 2, omittingEmptySubsequences: false)
        guard let first = words.first, first == "contract" else { return 0 }
        // Without a number, only binaries that know the migration itself.
        return words.count > 1 ? Int(words[1]) ?? version : version
    }

    package var checksum: [UInt8] { Array(SHA256.hash(data: Array(sql.utf8))) }
}

/// The table of what was applied.
enum MigrationTable {
    static let create = """
        CREATE TABLE IF NOT EXISTS freshet_migration (
            version int PRIMARY KEY,
            name text NOT NULL,
            checksum bytea NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
        )
        """

    struct Exists: PostgresStatement {
        let sql = "SELECT pg_catalog.to_regclass('freshet_migration') IS NOT NULL AS exists"

        func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("exists") }
    }

    struct Applied: PostgresStatement {
        struct Row: Sendable {
            var version: Int
            var name: String
            var checksum: [UInt8]
        }

        let sql = "SELECT version, name, checksum FROM freshet_migration ORDER BY version"

        func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
            Row(version: try row.value("version"), name: try row.value("name"), checksum: try row.value("checksum"))
        }
    }

    struct Insert: PostgresStatement {
        let sql = """
            INSERT INTO freshet_migration (version, name, checksum) VALUES ($1::int8::int4, $2::text, $3::bytea)
            """

        let migration: PostgresMigration

        var parameters: PostgresParameters {
            PostgresParameters(migration.version, migration.name, migration.checksum)
        }
    }

    /// Session lock of the migrating process: its transactions do not release it.
    struct Lock: PostgresStatement {
        /// "freshet" in ASCII.
        let sql = "SELECT pg_catalog.pg_advisory_lock(28836227850495348)"
    }
}
