import WidgetModel

/// The one formula by which a request makes a timeline due (design, section 3), used by every statement that marks.
///
/// The hot row must be named `s`. A leased row keeps its `due_at`, which is the end of its lease.
enum MarkFormula {
    /// When the request makes the row due: an operator's at once, a free one at once too unless the timeline is shared
    /// (`free_at`), the others when spacing and budget allow; never before a retry.
    static func dueTime(free: String, forced: String = "false") -> String {
        """
        greatest(now(), s.retry_at, CASE WHEN \(forced) THEN now() WHEN \(free) THEN s.free_at ELSE s.eligible_at END)
        """
    }

    static func dueAt(free: String, forced: String = "false") -> String {
        "CASE WHEN s.leased THEN s.due_at ELSE least(s.due_at, \(dueTime(free: free, forced: forced))) END"
    }

    /// What the row notes of an operator's request: nothing holds it back, not even when it comes during a fetch.
    static func freeAt(forced: String) -> String {
        "CASE WHEN \(forced) THEN '-infinity' ELSE s.free_at END"
    }

    /// The lane of a row that bulk work touches: the bulk lane, unless the row is due by then for a better reason.
    /// (`least` would leave a row that waits for its policy's time in the scheduled lane, and so let a reload of
    /// everyone flood that lane.)
    ///
    /// Due by then also means: by a mark that has committed since this transaction began, whose `now()` is later than
    /// this one's. That mark would else wait in the bulk lane behind all that is swept.
    static func bulkLane(free: String, forced: String) -> String {
        """
        CASE WHEN s.leased OR s.due_at <= greatest(clock_timestamp(), \(dueTime(free: free, forced: forced))) THEN s.lane
             ELSE \(ReloadLane.bulk.rawValue) END
        """
    }
}
