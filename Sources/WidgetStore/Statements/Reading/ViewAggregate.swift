import WidgetModel

/// How often a timeline is looked at, over the widgets that show it (design, section 6, rule 3): SQL that `ReadExplanation`
/// joins laterally, and the claim's plan takes the same numbers.
enum ViewAggregate {
    /// The most widgets that are looked at. A timeline that more of them show is never taken for dormant.
    static let widgets = 64

    /// What an average of views has decayed to. Bounded, since PostgreSQL refuses the exponential of a widget that was
    /// last viewed years ago.
    static func decayed(_ row: String) -> String {
        """
        \(row).view_rate * exp(-least(greatest(extract(epoch FROM now() - \(row).last_viewed_at)::float8, 0)
            / \(ViewStatistics.timeConstant), 100))
        """
    }

    /// One row: `widgets` (counted up to one more than the limit), `views` (a day), `last_active` (NULL when there are
    /// too many to tell), `last_placed`.
    static func sql(timeline: String) -> String {
        """
        SELECT count(*) AS widgets,
               coalesce(sum(\(decayed("w"))) FILTER (WHERE w.n <= \(widgets)), 0) * \(ViewStatistics.viewsPerHour) AS views,
               CASE WHEN count(*) <= \(widgets) THEN max(greatest(w.last_viewed_at, w.placed_at)) END AS last_active,
               max(w.placed_at) AS last_placed
        FROM (
            SELECT v.view_rate, v.last_viewed_at, v.placed_at, row_number() OVER () AS n
            FROM widget v WHERE v.timeline_id = \(timeline) LIMIT \(widgets + 1)
        ) w
        """
    }
}
