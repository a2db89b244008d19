package import PostgresClient
package import WidgetModel

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
                SELECT u.topic, now() FROM unnest((SELECT $1::text[])) u (topic) ORDER BY u.topic
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
