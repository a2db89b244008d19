package import PostgresClient
package import WidgetModel

/// Why ingest does not go on, until an operator says so.
package struct IngestHalt: Hashable, Sendable, CustomStringConvertible {
    package enum Cause: String, Hashable, Sendable {
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
    /// What happened last, and where.
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

    package func bind(_ parameters: inout PostgresParameters) {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> IngestHalt {
        IngestHalt(
            cause: IngestHalt.Cause(rawValue: try row.optional(0) ?? "") ?? .apps,
            apps: try row.array(1, of: String.self), detail: try row.optional(2) ?? "",
            haltedAt: Timestamp(try row.value(3, as: PostgresTimestamp.self)))
    }
}

/// Locks the state of ingest, so that whoever judges it next sees what others have judged.
package struct LockIngestState: PostgresStatement {
    package static let sql = "SELECT 1 FROM ingest_state FOR UPDATE"

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}
}

/// Halts ingest if as many apps as that came over their limit within ten windows, and since the last resumption. It comes
/// behind ``LockIngestState``.
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

    let limits: DeadLetterLimits
    let detail: String

    package init(limits: DeadLetterLimits, detail: String) {
        self.limits = limits
        self.detail = detail
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(limits.window.wholeMilliseconds)
        parameters.append(Int64(limits.haltingApps))
        parameters.append(detail)
    }
}

/// Halts ingest, unless it is halted already.
package struct HaltIngest: PostgresStatement {
    package static let sql = """
        UPDATE ingest_state SET halted_at = now(), cause = $1::text, apps = $2::text[], detail = $3::text
        WHERE halted_at IS NULL
        """

    let cause: IngestHalt.Cause
    let apps: [String]
    let detail: String

    package init(cause: IngestHalt.Cause, apps: [String] = [], detail: String) {
        self.cause = cause
        self.apps = apps
        self.detail = detail
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(cause.rawValue)
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

    package func bind(_ parameters: inout PostgresParameters) {}
}

/// How many events of apps that are not registered wait, counted up to a limit.
package struct CountUnregistered: PostgresStatement {
    package static let sql = """
        SELECT count(*) FROM (
            SELECT 1 FROM dead_letter
            WHERE cause = 'unknownApp' AND replayed_at IS NULL AND discarded_at IS NULL
            LIMIT $1::int8) w
        """

    let limit: Int

    package init(limit: Int) {
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.value(0)
    }
}
