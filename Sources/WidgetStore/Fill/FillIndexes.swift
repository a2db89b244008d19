package import PostgresClient

/// Indexes of the tables that a fill writes, with the statements that drop each and make it again.
package struct FillIndexes: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let table: String
        package let drop: String
        package let create: String
    }

    package static let sql = """
        SELECT c.relname::text AS table_name,
               CASE WHEN k.oid IS NULL THEN format('DROP INDEX %s', i.oid::regclass)
                    ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', c.oid::regclass, k.conname) END AS drop,
               CASE WHEN k.oid IS NULL THEN pg_get_indexdef(i.oid)
                    ELSE format('ALTER TABLE %s ADD CONSTRAINT %I %s', c.oid::regclass, k.conname,
                                pg_get_constraintdef(k.oid)) END AS create
        FROM pg_index x
        JOIN pg_class c ON c.oid = x.indrelid
        JOIN pg_class i ON i.oid = x.indexrelid
        LEFT JOIN pg_constraint k ON k.conindid = i.oid AND k.contype IN ('p', 'u')
        WHERE c.oid IN (SELECT t::regclass FROM unnest($1::text[]) AS t)
        ORDER BY c.relname, i.relname
        """

    package let parameters: PostgresParameters

    package init(tables: [String] = FillTable.names) {
        parameters = PostgresParameters(array: tables)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(table: try row.value("table_name"), drop: try row.value("drop"), create: try row.value("create"))
    }
}

/// Whether there are no widgets, timelines and lists.
package struct FillIsEmpty: PostgresStatement {
    package static let sql = """
        SELECT NOT EXISTS (SELECT 1 FROM widget) AND NOT EXISTS (SELECT 1 FROM timeline)
            AND NOT EXISTS (SELECT 1 FROM work) AS empty
        """

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("empty") }
}
