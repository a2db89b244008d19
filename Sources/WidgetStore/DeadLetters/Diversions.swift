// SPDX-License-Identifier: Apache-2.0

import JSON
package import PostgresClient
package import WidgetModel

/// Failed events of an app: those to be counted, or those of the window so far.
package struct FailureCount: Hashable, Sendable {
    /// App id of the events that no app can be charged with.
    package static let nameless: Int32 = 0

    package var appID: Int32
    /// Topic of the events; the latest one of an app.
    package var topic: String
    /// Number of failed events.
    package var letters: Int64
    /// Number of all events.
    package var events: Int64
    /// Whether the window's are over the limit, and whether this count began the diversion.
    package var isOver: Bool
    package var isDiverted: Bool

    package init(
        appID: Int32, topic: String, letters: Int64, events: Int64, isOver: Bool = false, isDiverted: Bool = false
    ) {
        (self.appID, self.topic, self.letters, self.events) = (appID, topic, letters, events)
        (self.isOver, self.isDiverted) = (isOver, isDiverted)
    }
}

private let input = InputColumns<FailureCount>([
    .init("app_id") { $0.appID }, .init("topic") { $0.topic }, .init("letters") { $0.letters },
    .init("events") { $0.events },
])

/// Whether the window `w` is not over.
private let isCurrent = "w.began_at > now() - $\(input.count + 1)::int8 * interval '1 millisecond'"

private let countFailuresSQL = """
    WITH counted AS (
        INSERT INTO dead_letter_window AS w (app_id, topic, began_at, letters, events)
        SELECT i.app_id, CASE WHEN i.app_id = 0 THEN i.topic ELSE '' END, now(), i.letters, i.events
        FROM \(input.rows("i"))
        ORDER BY i.app_id, i.topic
        ON CONFLICT (app_id, topic) DO UPDATE SET
            began_at = CASE WHEN \(isCurrent) THEN w.began_at ELSE now() END,
            letters = excluded.letters + CASE WHEN \(isCurrent) THEN w.letters ELSE 0 END,
            events = excluded.events + CASE WHEN \(isCurrent) THEN w.events ELSE 0 END
        RETURNING w.app_id, w.topic, w.letters, w.events
    ), judged AS (
        SELECT c.app_id, i.topic, c.letters, c.events, c.letters > $\(input.count + 2)::int8
            AND c.letters * 100 >= c.events * $\(input.count + 3)::int8 AS is_over
        FROM counted c JOIN \(input.rows("i")) ON i.app_id = c.app_id AND c.topic IN ('', i.topic)
    ), begun AS (
        INSERT INTO diversion (app_id, letters, events, topic)
        SELECT j.app_id, j.letters, j.events, j.topic FROM judged j WHERE j.is_over AND j.app_id <> 0 ORDER BY j.app_id
        ON CONFLICT (app_id) DO NOTHING
        RETURNING app_id
    )
    SELECT j.app_id, j.topic, j.letters, j.events, j.is_over,
           EXISTS (SELECT FROM begun b WHERE b.app_id = j.app_id) AS is_diverted
    FROM judged j
    """

package struct WaitingLetters: Sendable {
    /// Nil for letters without a registered app, or of an app whose events the topic may not carry.
    package let appID: Int32?
    package let app: String?
    package let topic: String
    package let isDiverted: Bool
    package let count: Int64
    /// Stored size.
    package let bytes: Int64
}

private let waitingLettersSQL = """
    SELECT a.id AS app_id, a.name AS app, d.topic, v.app_id IS NOT NULL AS is_diverted, count(*) AS count,
           sum(coalesce(pg_column_size(d.payload), 0) + coalesce(pg_column_size(d.key), 0)
               + pg_column_size(d.header_names) + pg_column_size(d.header_values)) AS bytes
    FROM dead_letter d
    LEFT JOIN app a ON a.name = d.app AND d.cause <> 'notAllowed'
    LEFT JOIN diversion v ON v.app_id = a.id
    WHERE \(DeadLetterFilter.waiting)
    GROUP BY a.id, a.name, d.topic, v.app_id
    """

/// A diverted app, whose events wait.
package struct Diversion: Hashable, Sendable {
    package let appID: Int32
    package let app: String
    package let divertedAt: Timestamp
    /// Time since which its events are dropped; nil if they are kept.
    package let fullAt: Timestamp?
    /// Failed events, and all events, of the window in which it began.
    package let letters: Int64
    package let events: Int64
    /// Waiting diverted events, counted up to the given limit.
    package let waiting: Int64
}

private let listDiversionsSQL = """
    SELECT a.id AS app_id, a.name AS app, v.diverted_at, v.full_at, v.letters, v.events,
           (SELECT count(*) FROM (
                SELECT FROM dead_letter d
                WHERE d.cause = 'diverted' AND d.app = a.name AND \(DeadLetterFilter.waiting)
                LIMIT $1::int8) w) AS waiting
    FROM diversion v JOIN app a ON a.id = v.app_id
    ORDER BY a.name
    """

private let endDiversionSQL = """
    DELETE FROM diversion v USING app a
    WHERE a.name = $1::text AND v.app_id = a.id
      AND NOT EXISTS (SELECT FROM dead_letter d
                      WHERE d.cause = 'diverted' AND d.app = $1::text AND \(DeadLetterFilter.waiting))
    """

private let forgetFailuresSQL = """
    DELETE FROM dead_letter_window
    WHERE app_id = CASE WHEN $1::text IS NULL THEN 0 ELSE (SELECT a.id FROM app a WHERE a.name = $1::text) END
      AND ($2::text IS NULL OR topic = $2::text)
    """

extension PostgresStatement where Self == Statements {
    /// Counts failed events of the current window, and begins the diversion of every app that is over its limit.
    package static func countFailures(_ counts: [FailureCount], limits: DeadLetterLimits) -> PostgresQuery<
        FailureCount
    > {
        PostgresQuery(
            countFailuresSQL,
            binding: input.parameters(counts, limits.window.wholeMilliseconds, limits.letters, limits.share)
        ) { row in
            try FailureCount(
                appID: row.value("app_id"), topic: row.value("topic"), letters: row.value("letters"),
                events: row.value("events"), isOver: row.value("is_over"), isDiverted: row.value("is_diverted"))
        }
    }

    /// Waiting dead letters by the registered app that is charged with them, or by topic alone.
    package static func waitingLetters() -> PostgresQuery<WaitingLetters> {
        PostgresQuery(waitingLettersSQL) { row in
            try WaitingLetters(
                appID: row.optional("app_id"), app: row.optional("app"), topic: row.value("topic"),
                isDiverted: row.value("is_diverted"), count: row.value("count"), bytes: row.value("bytes"))
        }
    }

    /// Begins the diversion of an app that is over its quota.
    package static func beginDiversion(appID: Int32, letters: Int64) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            INSERT INTO diversion (app_id, letters, events) VALUES ($1::int4, $2::int8, $2::int8)
            ON CONFLICT (app_id) DO NOTHING
            """, appID, letters
        )
    }

    /// Stops keeping events of these diverted apps, and keeps those of the others again.
    package static func setFullDiversions(_ apps: [Int32]) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            UPDATE diversion SET full_at = CASE WHEN app_id = ANY ($1::int4[]) THEN now() END
            WHERE (full_at IS NOT NULL) <> (app_id = ANY ($1::int4[]))
            """, PostgresArray(apps)
        )
    }

    /// The diverted apps with their waiting events.
    ///
    /// - Parameter countLimit: limit of the counts of waiting events; 0 does not count.
    package static func listDiversions(countLimit: Int) -> PostgresQuery<Diversion> {
        PostgresQuery(listDiversionsSQL, countLimit) { row in
            try Diversion(
                appID: row.value("app_id"), app: row.value("app"), divertedAt: row.value("diverted_at"),
                fullAt: row.optional("full_at"), letters: row.value("letters"), events: row.value("events"),
                waiting: row.value("waiting"))
        }
    }

    /// Locks an app's diversion against batches that divert; no row if the app is not diverted.
    package static func lockDiversion(app: String) -> PostgresQuery<Int32> {
        PostgresQuery(
            """
            SELECT d.app_id FROM diversion d
            WHERE d.app_id = (SELECT a.id FROM app a WHERE a.name = $1::text)
            FOR UPDATE
            """, app
        ) { row in try row.value("app_id") }
    }

    /// Ends the diversion of an app unless some of its events wait. Runs after ``PostgresStatement/lockDiversion``, so
    /// that nothing is diverted in between.
    package static func endDiversion(app: String) -> PostgresQuery<Void> {
        PostgresQuery(endDiversionSQL, app)
    }

    /// Forgets an app's failures within the current window.
    package static func forgetFailures(app: String) -> PostgresQuery<Void> {
        PostgresQuery(forgetFailuresSQL, app, nil as String?)
    }

    /// Forgets the failures of nameless events within the current window, on one topic or on all (nil).
    package static func forgetFailures(topic: String? = nil) -> PostgresQuery<Void> {
        PostgresQuery(forgetFailuresSQL, nil as String?, topic)
    }
}

/// Halt of a topic until an operator resumes it.
package struct IngestHalt: Hashable, Sendable, CustomStringConvertible {
    package enum Cause: String, Hashable, Sendable, PostgresConvertible {
        /// Several apps exceeded their limit of dead letters at a time.
        case apps
        /// Too many events failed without an app to charge.
        case nameless
        /// Too many events wait.
        case full
    }

    package let topic: String
    package let cause: Cause
    /// Names of the apps that caused it; empty for nameless events.
    package let apps: [String]
    /// The latest failure and its place.
    package let detail: String
    package let haltedAt: Timestamp

    /// Command that resumes the topic.
    package var command: String { "freshet ingest resume --topic \(topic)" }

    package var description: String {
        let names = apps.map { Text.quoted($0) }.joined(separator: ", ")
        let what =
            switch cause {
            case .apps: "\(apps.count) apps exceeded their limit of dead letters at a time: \(names)"
            case .nameless: "too many events failed that no app can be charged with"
            case .full: "more events wait in the database than may\(names.isEmpty ? "" : ": \(names)")"
            }
        return "the topic \(topic) is halted since \(haltedAt.rfc3339): \(what) (\(detail)); "
            + "nothing is lost; look with `freshet dead-letters list`, go on with `\(command)`"
    }
}

extension PostgresStatement where Self == Statements {
    /// The halted topics.
    package static func listHalts() -> PostgresQuery<IngestHalt> {
        PostgresQuery(
            """
            SELECT topic, cause, apps, detail, halted_at FROM topic_state WHERE halted_at IS NOT NULL ORDER BY topic
            """
        ) { row in
            try IngestHalt(
                topic: row.value("topic"),
                cause: row.optional("cause", as: String.self).flatMap { .init(rawValue: $0) } ?? .apps,
                apps: row.array("apps"),
                detail: row.optional("detail") ?? "", haltedAt: row.value("halted_at"))
        }
    }

    /// The topics whose further events of no registered app are dropped.
    package static func listFullTopics() -> PostgresQuery<String> {
        PostgresQuery("SELECT topic FROM topic_state WHERE full_at IS NOT NULL ORDER BY topic") { row in
            try row.value("topic")
        }
    }

    /// Stops keeping events of no registered app on these topics, and keeps those on the others again.
    package static func setFullTopics(_ topics: [String]) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH full_topics AS (
                INSERT INTO topic_state AS s (topic, full_at)
                SELECT u.topic, now() FROM unnest($1::text[]) u (topic) ORDER BY u.topic
                ON CONFLICT (topic) DO UPDATE SET full_at = excluded.full_at WHERE s.full_at IS NULL
            )
            UPDATE topic_state SET full_at = NULL WHERE full_at IS NOT NULL AND topic <> ALL ($1::text[])
            """, PostgresArray(topics)
        )
    }

    /// Locks the state of a topic, so that concurrent decisions to halt it see each other.
    package static func lockTopicState(topic: String) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            INSERT INTO topic_state AS s (topic) VALUES ($1::text) ON CONFLICT (topic) DO UPDATE SET topic = s.topic
            """, topic
        )
    }

    /// Halts a topic if too many apps exceeded their limit on it within ten windows and since its last resumption. Runs
    /// after ``PostgresStatement/lockTopicState``.
    package static func haltForApps(topic: String, limits: DeadLetterLimits, detail: String) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH recent AS (
                SELECT coalesce(array_agg(a.name ORDER BY a.name), '{}') AS apps
                FROM topic_state s JOIN diversion d ON d.topic = s.topic JOIN app a ON a.id = d.app_id
                WHERE s.topic = $1::text
                  AND d.diverted_at > greatest(s.resumed_at, now() - $2::int8 * 10 * interval '1 millisecond')
            )
            UPDATE topic_state s SET halted_at = now(), cause = 'apps', apps = r.apps, detail = $4::text
            FROM recent r
            WHERE s.topic = $1::text AND s.halted_at IS NULL AND cardinality(r.apps) >= $3::int8
            """, topic, limits.window.wholeMilliseconds, limits.haltingApps, detail
        )
    }

    /// Halts a topic, unless it is halted already. Runs after ``PostgresStatement/lockTopicState``.
    package static func haltTopic(topic: String, cause: IngestHalt.Cause, apps: [String] = [], detail: String)
        -> PostgresQuery<Void>
    {
        PostgresQuery(
            """
            UPDATE topic_state SET halted_at = now(), cause = $2::text, apps = $3::text[], detail = $4::text
            WHERE topic = $1::text AND halted_at IS NULL
            """, topic, cause, PostgresArray(apps), detail
        )
    }

    /// Resumes a topic, or all (nil), and returns those that were halted.
    package static func resumeTopics(topic: String? = nil) -> PostgresQuery<String> {
        PostgresQuery(
            """
            UPDATE topic_state SET halted_at = NULL, cause = NULL, apps = '{}', detail = NULL, resumed_at = now()
            WHERE halted_at IS NOT NULL AND ($1::text IS NULL OR topic = $1::text)
            RETURNING topic
            """, topic
        ) { row in try row.value("topic") }
    }
}
