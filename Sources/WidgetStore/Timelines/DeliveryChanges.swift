import WidgetModel

/// SQL that notes changes of content for the devices of apps that deliver.
enum DeliveryChanges {
    /// A CTE `noted`. Changes of a shared timeline that waits or is being walked already move the end of its walk.
    ///
    /// - Parameter rows: a CTE with `id`, `kind_id`, `user_id`, `reason`, `revision` and `content_revision`.
    static func noted(of rows: String) -> String {
        """
        noted AS (
            INSERT INTO delivery_change AS d (app_id, shared, urgent, timelines)
            SELECT app_id, shared, urgent, array_agg(id ORDER BY id)
            FROM (
                SELECT (SELECT k.app_id FROM kind k WHERE k.id = kind_id) AS app_id,
                       CASE WHEN user_id IS NULL THEN id END AS shared, reason <= \(lastUrgentReason) AS urgent, id
                FROM \(rows)
                WHERE content_revision = revision AND kind_id = ANY (ARRAY(
                    SELECT k.id FROM app a JOIN kind k ON k.app_id = a.id WHERE a.delivers))
            ) c
            GROUP BY app_id, shared, urgent ORDER BY shared
            \(joined)
        )
        """
    }

    /// The conflict clause of an INSERT into `delivery_change AS d`.
    private static let joined = """
        ON CONFLICT (shared) WHERE shared IS NOT NULL DO UPDATE
        SET changed_at = excluded.changed_at, urgent = d.urgent OR excluded.urgent, is_second_round = false,
            end_app = d.cursor_app, end_widget = d.cursor_widget
        """

    /// Reasons up to this one are those of changes that a person waits for.
    private static let lastUrgentReason = ReloadReason.foreground.rawValue
}
