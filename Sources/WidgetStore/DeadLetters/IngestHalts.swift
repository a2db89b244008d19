package import PostgresClient
package import WidgetModel

/// Halt of ingest until an operator resumes it.
package struct IngestHalt: Hashable, Sendable, CustomStringConvertible {
    package enum Cause: String, Hashable, Sendable, PostgresConvertible {
        /// Several apps came over their limit of dead letters at a time.
        case apps
        /// Too many events that name no app failed.
        case nameless
        /// More events wait than may.
        case full
    }

    package let cause: Cause
    /// The apps that caused it, by name; none for events that name none.
    package let apps: [String]
    /// The latest failure and its place.
    package let detail: String
    package let haltedAt: Timestamp

    package init(cause: Cause, apps: [String], detail: String, haltedAt: Timestamp) {
        self.cause = cause
        self.apps = apps
        self.detail = detail
        self.haltedAt = haltedAt
    }

    /// How an operator lets ingest go on.
    package static let command = "freshet ingest resume"

    package var description: String {
        let names = apps.map { Text.quoted($0) }.joined(separator: ", ")
        let what =
            switch cause {
            case .apps: "\(apps.count) apps came over their limit of dead letters at a time: \(names)"
            case .nameless: "too many events that name no app failed"
            case .full: "more events wait in the database than may\(names.isEmpty ? "" : ": \(names)")"
            }
        return "ingest is halted since \(haltedAt.rfc3339): \(what) (\(detail)); "
            + "nothing is lost; look with `freshet dead-letters list`, go on with `\(Self.command)`"
    }
}

/// Whether ingest is halted; no row: it is not.
package struct ReadIngestHalt: PostgresStatement {
    package static let sql = """
        SELECT cause, apps, detail, halted_at FROM ingest_state WHERE halted_at IS NOT NULL
        """

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> IngestHalt {
        IngestHalt(
            cause: try row.optional("cause") ?? .apps, apps: try row.array("apps"),
            detail: try row.optional("detail") ?? "", haltedAt: try row.value("halted_at"))
    }
}

/// Locks the state of ingest, so that concurrent decisions to halt see each other.
package struct LockIngestState: PostgresStatement {
    package static let sql = "SELECT 1 FROM ingest_state FOR UPDATE"

    package init() {}
}

/// Halts ingest if too many apps came over their limit within ten windows and since the last resumption. Runs after
/// ``LockIngestState``.
package struct HaltForApps: PostgresStatement {
    package static let sql = """
        WITH recent AS (
            SELECT coalesce(array_agg(a.name ORDER BY a.name), '{}') AS apps
            FROM ingest_state s, diversion d JOIN app a ON a.id = d.app_id
            WHERE d.diverted_at > greatest(s.resumed_at, now() - $1::int8 * 10 * interval '1 millisecond')
        )
        UPDATE ingest_state s SET halted_at = now(), cause = 'apps', apps = r.apps, detail = $3::text
        FROM recent r
        WHERE s.halted_at IS NULL AND cardinality(r.apps) >= $2::int8
        """

    package let parameters: PostgresParameters

    package init(limits: DeadLetterLimits, detail: String) {
        parameters = PostgresParameters(limits.window.wholeMilliseconds, limits.haltingApps, detail)
    }
}

/// Halts ingest, unless it is halted already.
package struct HaltIngest: PostgresStatement {
    package static let sql = """
        UPDATE ingest_state SET halted_at = now(), cause = $1::text, apps = $2::text[], detail = $3::text
        WHERE halted_at IS NULL
        """

    package var parameters = PostgresParameters()

    package init(cause: IngestHalt.Cause, apps: [String] = [], detail: String) {
        parameters.append(cause)
        parameters.append(array: apps)
        parameters.append(detail)
    }
}

/// Lets ingest go on; no row is changed when it was not halted.
package struct ResumeIngest: PostgresStatement {
    package static let sql = """
        UPDATE ingest_state SET halted_at = NULL, cause = NULL, apps = '{}', detail = NULL, resumed_at = now()
        WHERE halted_at IS NOT NULL
        """

    package init() {}
}

/// How many events of apps that are not registered wait, counted up to a limit.
package struct CountUnregistered: PostgresStatement {
    package static let sql = """
        SELECT count(*) AS count FROM (
            SELECT FROM dead_letter d WHERE d.cause = 'unknownApp' AND \(DeadLetterFilter.waiting)
            LIMIT $1::int8) w
        """

    package let parameters: PostgresParameters

    package init(limit: Int) {
        parameters = PostgresParameters(limit)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value("count") }
}
