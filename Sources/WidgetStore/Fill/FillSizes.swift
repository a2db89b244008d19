package import PostgresClient

/// Sizes of the tables of widgets, timelines and lists, and the updates of their rows.
package struct FillSizes: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let table: String
        /// Bytes of the table alone, with its map files and TOAST.
        package let tableBytes: Int64
        /// Bytes of all its indexes.
        package let indexBytes: Int64
        package let updates: Int64
        /// Updates that touched no index.
        package let hotUpdates: Int64
        package let deadRows: Int64
        package let autovacuums: Int64
    }

    package static let sql = """
        SELECT t.name, pg_table_size(t.name::regclass) AS table_bytes, pg_indexes_size(t.name::regclass) AS index_bytes,
               coalesce(s.n_tup_upd, 0) AS updates, coalesce(s.n_tup_hot_upd, 0) AS hot_updates,
               coalesce(s.n_dead_tup, 0) AS dead, coalesce(s.autovacuum_count, 0) AS autovacuums
        FROM unnest($1::text[]) AS t (name) LEFT JOIN pg_stat_user_tables s ON s.relid = t.name::regclass
        ORDER BY t.name
        """

    package let parameters: PostgresParameters

    package init(tables: [String] = FillTable.names) {
        parameters = PostgresParameters(array: tables)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            table: try row.value("name"), tableBytes: try row.value("table_bytes"),
            indexBytes: try row.value("index_bytes"), updates: try row.value("updates"),
            hotUpdates: try row.value("hot_updates"), deadRows: try row.value("dead"),
            autovacuums: try row.value("autovacuums"))
    }
}
