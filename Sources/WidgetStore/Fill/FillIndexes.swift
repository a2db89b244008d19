package import PostgresClient

package struct FillIndex: Hashable, Sendable {
    package let table: String
    package let drop: String
    package let create: String
}

extension PostgresStatement where Self == Statements {
    /// Indexes of the tables that a fill writes, with the statements that drop each and make it again.
    package static func fillIndexes(tables: [String] = FillTable.names) -> PostgresQuery<FillIndex> {
        PostgresQuery(
            """
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
            """, PostgresArray(tables)
        ) { row in
            FillIndex(table: try row.value("table_name"), drop: try row.value("drop"), create: try row.value("create"))
        }
    }

    /// Whether there are no widgets, timelines and lists.
    package static func fillIsEmpty() -> PostgresQuery<Bool> {
        PostgresQuery(
            """
            SELECT NOT EXISTS (SELECT 1 FROM widget) AND NOT EXISTS (SELECT 1 FROM timeline)
                AND NOT EXISTS (SELECT 1 FROM work) AS empty
            """
        ) { row in try row.value("empty") }
    }
}
