package import PostgresClient
package import WidgetModel

/// What pausing or resuming did.
package struct PauseOutcome: Hashable, Sendable {
    /// Whether it was not so before.
    package let isChanged: Bool
    /// Since when it is paused; nil: it is not.
    package let pausedAt: Timestamp?
    /// Of a kind: whether its app is paused, so that its reloads wait all the same.
    package let isAppPaused: Bool
}

private func decodeOutcome(_ row: borrowing PostgresRow) throws(PostgresError) -> PauseOutcome {
    PauseOutcome(
        isChanged: try row.value(0), pausedAt: try row.optional(1, as: PostgresTimestamp.self).map { Timestamp($0) },
        isAppPaused: try row.value(2))
}

/// Pauses an app or lets it go on; no row: there is no such app.
package struct PauseApp: PostgresStatement {
    package static let sql = """
        WITH locked AS (
            SELECT a.id, a.paused_at FROM app a WHERE a.name = $1::text FOR NO KEY UPDATE
        ), changed AS (
            UPDATE app a SET paused_at = CASE WHEN $2::bool THEN now() END
            FROM locked l WHERE a.id = l.id AND (l.paused_at IS NOT NULL) <> $2::bool
            RETURNING a.id
        )
        SELECT EXISTS (SELECT 1 FROM changed), CASE WHEN $2::bool THEN coalesce(l.paused_at, now()) END, $2::bool
        FROM locked l
        """

    let app: String
    let isPaused: Bool

    package init(app: String, isPaused: Bool) {
        self.app = app
        self.isPaused = isPaused
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(isPaused)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> PauseOutcome {
        try decodeOutcome(row)
    }
}

/// Pauses a kind, a retired one too, or lets it go on; no row: there is no such kind.
package struct PauseKind: PostgresStatement {
    package static let sql = """
        WITH locked AS (
            SELECT k.id, k.paused_at, a.paused_at IS NOT NULL AS is_app_paused
            FROM kind k JOIN app a ON a.id = k.app_id
            WHERE a.name = $1::text AND k.name = $2::text
            FOR NO KEY UPDATE OF k
        ), changed AS (
            UPDATE kind k SET paused_at = CASE WHEN $3::bool THEN now() END
            FROM locked l WHERE k.id = l.id AND (l.paused_at IS NOT NULL) <> $3::bool
            RETURNING k.id
        )
        SELECT EXISTS (SELECT 1 FROM changed), CASE WHEN $3::bool THEN coalesce(l.paused_at, now()) END,
               l.is_app_paused
        FROM locked l
        """

    let app: String
    let kind: String
    let isPaused: Bool

    package init(app: String, kind: String, isPaused: Bool) {
        self.app = app
        self.kind = kind
        self.isPaused = isPaused
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(kind)
        parameters.append(isPaused)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> PauseOutcome {
        try decodeOutcome(row)
    }
}

/// Which of some kinds may be swept, as of now: a directory may be seconds old.
package struct KindStates: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let kindID: Int32
        package let isRetired: Bool
        /// Itself, or its app.
        package let isPaused: Bool
    }

    package static let sql = """
        SELECT k.id, k.retired_at IS NOT NULL, k.paused_at IS NOT NULL OR a.paused_at IS NOT NULL
        FROM kind k JOIN app a ON a.id = k.app_id
        WHERE k.id = ANY ($1::int4[])
        ORDER BY k.id
        """

    let kindIDs: [Int32]

    package init(_ kindIDs: [Int32]) {
        self.kindIDs = kindIDs
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: kindIDs)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(kindID: try row.value(0), isRetired: try row.value(1), isPaused: try row.value(2))
    }
}
