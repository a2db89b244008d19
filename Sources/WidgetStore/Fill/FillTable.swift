import PostgresClient

/// The tables that a fill writes, and the commands for it.
package enum FillTable {
    /// In the order in which one lock after the other is taken.
    package static let names = ["timeline", "widget", "work"]

    /// Locks the tables until the end of the transaction. Waits only for a vacuum to yield: nothing else may use them.
    static let lock = """
        SET LOCAL lock_timeout = '20s';
        LOCK TABLE \(names.joined(separator: ", ")) IN ACCESS EXCLUSIVE MODE
        """

    static let timelines = """
        COPY timeline (id, identity, kind_id, family, configuration, locale, time_zone, user_id, requested, rendered,
                       free_requested, generation, revision, content_revision, listed_at, listed_lane, policy_at,
                       rendered_at, requested_at, placed_at, stored_at, hash, content)
        FROM STDIN (FORMAT binary)
        """

    static let widgets = """
        COPY widget (app_id, id, kind_id, family, user_id, device_id, locale, time_zone, timeline_id, placed_at,
                     changed_at)
        FROM STDIN (FORMAT binary)
        """

    /// For the visibility map, without which reading only an index reads the table too, and for the planner.
    static let settle = "VACUUM (ANALYZE) \(names.joined(separator: ", "))"

    /// Of a session that copies or makes indexes.
    static func session(memory megabytes: Int) -> String {
        "SET statement_timeout = 0; SET maintenance_work_mem = '\(megabytes)MB'"
    }
}
