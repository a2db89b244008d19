import Crypto

/// One step of the schema. Its checksum is the SHA-256 of the text: a migration that was applied is never edited.
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
        static let sql = "SELECT pg_catalog.to_regclass('freshet_migration') IS NOT NULL"

        static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value(0) }
    }

    struct Applied: PostgresStatement {
        struct Row: Sendable {
            var version: Int
            var name: String
            var checksum: [UInt8]
        }

        static let sql = "SELECT version, name, checksum FROM freshet_migration ORDER BY version"

        static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
            Row(version: try row.value(0), name: try row.value(1), checksum: try row.value(2))
        }
    }

    struct Insert: PostgresStatement {
        static let sql = """
            INSERT INTO freshet_migration (version, name, checksum) VALUES ($1::int8::int4, $2::text, $3::bytea)
            """

        let migration: PostgresMigration

        func bind(_ parameters: inout PostgresParameters) {
            parameters.append(migration.version)
            parameters.append(migration.name)
            parameters.append(migration.checksum)
        }
    }

    /// Held by whoever migrates, for the session: the transactions in between do not release it.
    struct Lock: PostgresStatement {
        /// "freshet" in ASCII.
        static let sql = "SELECT pg_catalog.pg_advisory_lock(28836227850495348)"
    }
}
