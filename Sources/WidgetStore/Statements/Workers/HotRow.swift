package import PostgresClient
import WidgetModel

/// How statements of a claim's holder find its rows of `timeline_state`.
///
/// A look-up by primary key visits every version that is still there, all the more while a transaction is held open
/// somewhere. The holder knows where the claim left the row, and finds it there if nobody has written it since; else the
/// key finds it, in the same statement and so in the same order of locks. Only a row that gets a newer version while the
/// statement runs may be missed, by servers that look again whether a row is still at its place: so whoever misses rows asks for
/// those once more, by their keys.
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

extension PostgresPool {
    /// Stores content, see ``SaveContent``: answers all rows whose claim held.
    package func save(_ writes: [ContentWrite]) async throws(PostgresError) -> [SaveContent.Row] {
        let rows = try await query(SaveContent(writes))
        guard rows.count < writes.count, writes.contains(where: { $0.tid != nil }) else { return rows }
        let found = Set(rows.map(\.id))
        let missed = writes.filter { !found.contains($0.id) }.map { write in
            var write = write
            write.tid = nil
            return write
        }
        return rows + (try await query(SaveContent(missed)))
    }

    /// Completes regenerations, see ``CompleteTimelines``: answers all rows whose claim held.
    package func complete(_ completions: [Completion]) async throws(PostgresError) -> [CompleteTimelines.Row] {
        let rows = try await query(CompleteTimelines(completions))
        guard rows.count < completions.count, completions.contains(where: { $0.tid != nil }) else { return rows }
        let found = Set(rows.map(\.id))
        let missed = completions.filter { !found.contains($0.id) }.map { completion in
            var completion = completion
            completion.tid = nil
            return completion
        }
        return rows + (try await query(CompleteTimelines(missed)))
    }
}
