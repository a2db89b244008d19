/// How statements of a claim's holder find its rows of `timeline_state`.
///
/// A look-up by primary key visits every version that is still there, all the more while a transaction is held open
/// somewhere. The holder knows where the claim left the row, and finds it there if nobody has written it since; else the
/// key finds it, in the same statement and so in the same order of locks. Only a row that gets a newer version while the
/// statement waits for it may be missed, by servers that look again whether a row is still at its place. So whoever misses rows
/// asks for those once more by a statement that knows no places: it follows a row to its newest version.
enum HotRow {
    /// The place of the row of an input row with `id` and `tid`, which may be NULL.
    static func tid(of input: String) -> String {
        """
        coalesce(
            (SELECT s.ctid FROM timeline_state s WHERE s.ctid = \(input).tid AND s.timeline_id = \(input).id),
            (SELECT s.ctid FROM timeline_state s WHERE s.timeline_id = \(input).id))
        """
    }
}
