import WidgetModel

/// SQL that notes changes of content for the devices of apps that deliver.
enum DeliveryChanges {
    /// A CTE `noted`.
    ///
    /// - Parameter rows: a CTE with `id`, `kind_id`, `user_id`, `reason`, `revision` and `content_revision`.
    static func noted(of rows: String) -> String {
        """
        noted AS (
            INSERT INTO delivery_change (shared, urgent, timelines)
            SELECT CASE WHEN user_id IS NULL THEN id END, reason <= \(lastUrgentReason), array_agg(id ORDER BY id)
            FROM \(rows)
            WHERE content_revision = revision AND kind_id = ANY (ARRAY(
                SELECT k.id FROM app a JOIN kind k ON k.app_id = a.id WHERE a.delivers))
            GROUP BY CASE WHEN user_id IS NULL THEN id END, reason <= \(lastUrgentReason)
        )
        """
    }

    /// Reasons up to this one are those of changes that a person waits for.
    private static let lastUrgentReason = ReloadReason.foreground.rawValue
}
