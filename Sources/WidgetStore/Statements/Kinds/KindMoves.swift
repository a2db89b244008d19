package import PostgresClient
package import WidgetModel

extension KindDefinition {
    /// Binds which parts of a widget are in the identity of the kind's timelines.
    fileprivate func bindIdentity(_ parameters: inout PostgresParameters) {
        parameters.append(variesBy.contains(.family))
        parameters.append(variesBy.contains(.locale))
        parameters.append(variesBy.contains(.timeZone))
        parameters.append(sharing == .perUser)
    }
}

/// Whether the timeline `t` is not one of the identity that is bound from parameter `first` on.
private func isStray(from first: Int) -> String {
    """
    ((t.family IS NOT NULL) <> $\(first)::bool OR (t.locale IS NOT NULL) <> $\(first + 1)::bool
        OR (t.time_zone IS NOT NULL) <> $\(first + 2)::bool OR (t.user_id IS NOT NULL) <> $\(first + 3)::bool)
    """
}

/// How many timelines of a kind are not of a definition's identity, of so many at the most.
package struct CountStrays: PostgresStatement {
    package static let sql = """
        SELECT count(*) FILTER (WHERE counted.is_stray) FROM (
            SELECT \(isStray(from: 3)) AS is_stray FROM timeline t WHERE t.kind_id = $1::int4 LIMIT $2::int8
        ) counted
        """

    let kindID: Int32
    let definition: KindDefinition
    let limit: Int

    package init(kindID: Int32, definition: KindDefinition, limit: Int) {
        self.kindID = kindID
        self.definition = definition
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
        parameters.append(Int64(limit))
        definition.bindIdentity(&parameters)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int {
        Int(try row.value(0, as: Int64.self))
    }
}

/// Begins the move of a kind's widgets, anew where one is under way.
package struct BeginMove: PostgresStatement {
    package static let sql = """
        INSERT INTO kind_move AS m (kind_id)
        SELECT k.id FROM kind k WHERE k.app_id = $1::int4 AND k.name = $2::text
        ON CONFLICT (kind_id) DO UPDATE
            SET started_at = now(), pass = 1, pass_begins_at = now(), cursor_timeline = excluded.cursor_timeline,
                moved = 0, moved_in_all = 0
        """

    let appID: Int32
    let kind: String

    package init(appID: Int32, kind: String) {
        self.appID = appID
        self.kind = kind
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(appID)
        parameters.append(kind)
    }
}

/// Locks the move of a kind for one chunk; no row: there is none, it waits, or another process works on it.
///
/// The kind's definition must be read by a later statement of the transaction: whoever changes it holds this lock until
/// it is committed, and its move starts at the beginning.
package struct LockMove: PostgresStatement {
    package static let sql = """
        SELECT m.cursor_timeline FROM kind_move m JOIN kind k ON k.id = m.kind_id
        WHERE m.kind_id = $1::int4 AND m.pass_begins_at <= now() AND k.retired_at IS NULL
        FOR NO KEY UPDATE OF m SKIP LOCKED
        """

    let kindID: Int32

    package init(kindID: Int32) {
        self.kindID = kindID
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
    }

    /// Where the pass has come to.
    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> TimelineID {
        TimelineID(try row.value(0, as: PostgresUUID.self))
    }
}

/// A page of a kind's timelines in id order, and which of them are not of its definition's identity. Nothing is locked.
package struct MovePage: PostgresStatement {
    package struct Row: Hashable, Sendable {
        /// Timelines looked at; fewer than the limit: there are no more.
        package let examined: Int
        package let last: TimelineID?
        /// Those of another identity that widgets show, ascending.
        package let strays: [TimelineID]
    }

    package static let sql = """
        WITH page AS MATERIALIZED (
            SELECT t.id, \(isStray(from: 4)) AS is_stray FROM timeline t
            WHERE t.kind_id = $1::int4 AND t.id > $2::uuid
            ORDER BY t.id
            LIMIT $3::int8
        )
        SELECT (SELECT count(*) FROM page), (SELECT id FROM page ORDER BY id DESC LIMIT 1),
               (SELECT coalesce(array_agg(p.id ORDER BY p.id), '{}')
                FROM page p JOIN timeline_state s ON s.timeline_id = p.id WHERE p.is_stray AND NOT s.orphaned)
        """

    let kindID: Int32
    let definition: KindDefinition
    let cursor: TimelineID
    let limit: Int

    package init(kindID: Int32, definition: KindDefinition, after cursor: TimelineID, limit: Int) {
        self.kindID = kindID
        self.definition = definition
        self.cursor = cursor
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
        parameters.append(PostgresUUID(cursor))
        parameters.append(Int64(limit))
        definition.bindIdentity(&parameters)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            examined: Int(try row.value(0, as: Int64.self)),
            last: try row.optional(1, as: PostgresUUID.self).map { TimelineID($0) },
            strays: try row.array(2, of: PostgresUUID.self).map { TimelineID($0) })
    }
}

/// Moves the cursor of a pass, after a chunk.
package struct AdvanceMove: PostgresStatement {
    package static let sql = """
        UPDATE kind_move
        SET cursor_timeline = $2::uuid, moved = moved + $3::int8, moved_in_all = moved_in_all + $3::int8
        WHERE kind_id = $1::int4
        """

    let kindID: Int32
    let cursor: TimelineID
    let moved: Int

    package init(kindID: Int32, cursor: TimelineID, moved: Int) {
        self.kindID = kindID
        self.cursor = cursor
        self.moved = moved
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
        parameters.append(PostgresUUID(cursor))
        parameters.append(Int64(moved))
    }
}

/// Ends a pass whose moved widgets are all counted. The move is over when the pass moved nothing and began after the
/// definition had settled: no process places widgets by an older one any more. Else another pass begins, at once if this
/// one moved something, and not before the definition has settled otherwise. Answers whether the move is over.
package struct EndMovePass: PostgresStatement {
    package static let sql = """
        WITH over AS (
            DELETE FROM kind_move m
            WHERE m.kind_id = $1::int4 AND m.moved = 0
                AND m.pass_begins_at >= m.started_at + $2::int8 * interval '1 millisecond'
            RETURNING 1
        ), next AS (
            UPDATE kind_move m
            SET pass = m.pass + 1, cursor_timeline = '00000000-0000-0000-0000-000000000000', moved = 0,
                pass_begins_at = CASE WHEN m.moved > 0 THEN now() ELSE
                    greatest(now(), m.started_at + $2::int8 * interval '1 millisecond') END
            WHERE m.kind_id = $1::int4 AND NOT (
                m.moved = 0 AND m.pass_begins_at >= m.started_at + $2::int8 * interval '1 millisecond')
        )
        SELECT EXISTS (SELECT 1 FROM over)
        """

    let kindID: Int32
    let settling: Duration

    /// - Parameter settling: how long after a change of the definition a process may still know the old one.
    package init(kindID: Int32, settling: Duration) {
        self.kindID = kindID
        self.settling = settling
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
        parameters.append(settling.wholeMilliseconds)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool {
        try row.value(0)
    }
}

/// How far the move of a kind's widgets has come.
package struct KindMove: Hashable, Sendable {
    package let kindID: Int32
    /// When the definition was changed.
    package let startedAt: Timestamp
    /// From 1.
    package let pass: Int
    /// When the pass began, or is to begin.
    package let passBeginsAt: Timestamp
    /// Up to where the pass has come. Ids are hashes: how far that is among all ids is how far it is among the kind's.
    package let cursor: TimelineID
    /// Widgets moved in this pass, and in all.
    package let moved: Int64
    package let movedInAll: Int64

    /// How much of the pass is done, 0 to 1.
    package var passProgress: Double { Double(cursor.high) / Double(UInt64.max) }
}

/// The moves that are under way.
package struct ListMoves: PostgresStatement {
    package static let sql = """
        SELECT m.kind_id, m.started_at, m.pass, m.pass_begins_at, m.cursor_timeline, m.moved, m.moved_in_all
        FROM kind_move m
        ORDER BY m.kind_id
        """

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> KindMove {
        KindMove(
            kindID: try row.value(0), startedAt: Timestamp(try row.value(1, as: PostgresTimestamp.self)),
            pass: Int(try row.value(2, as: Int32.self)),
            passBeginsAt: Timestamp(try row.value(3, as: PostgresTimestamp.self)),
            cursor: TimelineID(try row.value(4, as: PostgresUUID.self)), moved: try row.value(5),
            movedInAll: try row.value(6))
    }
}
