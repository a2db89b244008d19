package import PostgresClient
package import WidgetModel

/// A fetched timeline to store.
package struct ContentWrite: Sendable {
    package var id: TimelineID
    package var claim: Int64
    package var hash: ContentHash
    /// Canonical JSON of policy and entries.
    package var content: String
    /// Where the claim left the hot row.
    package var tid: PostgresTID?

    package init(id: TimelineID, claim: Int64, hash: ContentHash, content: String, tid: PostgresTID? = nil) {
        self.id = id
        self.claim = claim
        self.hash = hash
        self.content = content
        self.tid = tid
    }
}

/// Stores content where it differs from what is stored, only for rows whose claim is still this worker's. The first
/// timeline replaces its snapshot.
///
/// Content that comes back to what completed claims published last, over something that a claim stored and did not
/// complete, may have been overtaken on Kafka by that something: `published_hash` is cleared with it, so that whoever
/// ends the claim, now or after another crash, publishes it anew.
package struct SaveContent: PostgresStatement {
    package struct Row: Sendable {
        package let id: TimelineID
        /// Whether the stored content changed.
        package let isChanged: Bool
        /// What its completed claims have published last; `nil` when that is not known, or not what is stored.
        package let publishedHash: ContentHash?
        package let claim: Int64
    }

    /// The planner takes arrays for a few rows, and would join what came of them row by row with row by row: a look-up in a
    /// subquery that it cannot make a join of is hashed.
    ///
    /// Answers the rows whose claim held, whether their content changed or not; the others are dropped.
    package static let sql = text(inPlace: false)

    /// - Parameter inPlace: rows are found by a fifth parameter, where their claims left them; see ``HotRow``.
    static func text(inPlace: Bool) -> String {
        """
        WITH input AS MATERIALIZED (
            SELECT i.*\(inPlace ? ", \(HotRow.tid(of: "i")) AS place" : "")
            FROM unnest($1::uuid[], $2::int8[], $3::uuid[], $4::text[]\(inPlace ? ", $5::tid[]" : ""))
                AS i (id, claim, hash, content\(inPlace ? ", tid" : ""))
        ), live AS MATERIALIZED (
            SELECT i.id, i.claim, i.hash, i.content, s.rendered_at IS NULL AS is_first, s.published_hash
            FROM input i JOIN timeline_state s
                ON \(inPlace ? "s.ctid = i.place AND " : "")s.timeline_id = i.id \(Protection.fencing.sql("AND s.claim = i.claim"))
            ORDER BY s.timeline_id
            FOR NO KEY UPDATE OF s
        ), updated AS (
            -- Most timelines have content by then: an upsert would lock each row before it writes it.
            UPDATE timeline_content c SET hash = l.hash, revision = l.claim, content = l.content, stored_at = now()
            FROM live l WHERE c.timeline_id = l.id AND c.hash <> l.hash
            RETURNING c.timeline_id
        ), inserted AS (
            INSERT INTO timeline_content AS c (timeline_id, hash, revision, content)
            SELECT l.id, l.hash, l.claim, l.content FROM live l
            WHERE (l.id IN (SELECT timeline_id FROM updated)) IS NOT TRUE
            ON CONFLICT (timeline_id) DO UPDATE
                SET hash = excluded.hash, revision = excluded.revision, content = excluded.content, stored_at = now()
                WHERE c.hash <> excluded.hash
            RETURNING c.timeline_id
        ), stored AS (
            SELECT timeline_id FROM updated UNION ALL SELECT timeline_id FROM inserted
        ), replaced AS (
            DELETE FROM snapshot p USING live l WHERE p.timeline_id = l.id AND l.is_first
        ), returned AS (
            UPDATE timeline_state s SET published_hash = NULL
            FROM live l
            WHERE s.timeline_id = l.id AND l.published_hash = l.hash
                AND (l.id IN (SELECT timeline_id FROM stored)) IS TRUE
        )
        SELECT l.id, l.id IN (SELECT timeline_id FROM stored), l.published_hash, l.claim FROM live l
        """
    }

    let writes: [ContentWrite]

    package init(_ writes: [ContentWrite]) {
        self.writes = writes
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: writes.map { PostgresUUID($0.id) })
        parameters.append(array: writes.map(\.claim))
        parameters.append(array: writes.map { PostgresUUID($0.hash) })
        parameters.append(array: writes.map(\.content))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            id: TimelineID(try row.value(0, as: PostgresUUID.self)), isChanged: try row.value(1),
            publishedHash: try row.optional(2, as: PostgresUUID.self).map { ContentHash($0) },
            claim: try row.value(3))
    }
}

/// Stores content as ``SaveContent`` does, of rows that are where their claims left them; the others are found by their keys.
/// A row that gets a new version while the statement waits for it may be missing from the answer though its claim holds: it is
/// to be saved by ``SaveContent`` then.
package struct SaveContentInPlace: PostgresStatement {
    package static let sql = SaveContent.text(inPlace: true)
    let save: SaveContent

    package init(_ writes: [ContentWrite]) {
        save = SaveContent(writes)
    }

    package func bind(_ parameters: inout PostgresParameters) {
        save.bind(&parameters)
        parameters.append(array: save.writes.map(\.tid))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> SaveContent.Row {
        try SaveContent.decode(row)
    }
}
