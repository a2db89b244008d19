package import PostgresClient
package import WidgetModel

/// Fails the transaction of a batch with `FR003` while ingest is halted, and with `FR002` when other of its apps are
/// diverted than the process believes; until the transaction ends, none of these diversions does.
package struct RequireFlow: PostgresStatement {
    package static let diversionsState = "FR002"
    package static let haltedState = "FR003"

    /// The function is called only where there is something to look at and to lock: as a rule there is nothing.
    package static let sql = """
        SELECT require_flow($1::int4[], $2::int4[])
        WHERE $2::int4[] <> '{}'
           OR EXISTS (SELECT FROM ingest_state WHERE halted_at IS NOT NULL)
           OR EXISTS (SELECT FROM diversion d WHERE d.app_id = ANY ($1::int4[]))
        """

    let apps: [Int32]
    let diverted: [Int32]

    /// - Parameters:
    ///   - apps: the apps of the batch.
    ///   - diverted: those of them whose events the batch diverts.
    package init(apps: some Sequence<Int32>, diverted: some Sequence<Int32>) {
        self.apps = Array(apps)
        self.diverted = diverted.sorted()
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: apps)
        parameters.append(array: diverted)
    }
}

/// Counts failed events of the current window, and begins the diversion of every app that is over its limit.
package struct CountFailures: PostgresStatement {
    /// Stands for the events that name no app.
    package static let nameless: Int32 = 0

    package struct Count: Hashable, Sendable {
        package var appID: Int32
        /// Events that failed.
        package var letters: Int64
        /// Events that these are among.
        package var events: Int64

        package init(appID: Int32, letters: Int64, events: Int64) {
            self.appID = appID
            self.letters = letters
            self.events = events
        }
    }

    package struct Row: Hashable, Sendable {
        package let appID: Int32
        /// Of the window so far.
        package let letters: Int64
        package let events: Int64
        package let isOver: Bool
        /// It is diverted from now on.
        package let isDiverted: Bool
    }

    package static let sql = """
        WITH counted AS (
            INSERT INTO dead_letter_window AS w (app_id, began_at, letters, events)
            SELECT i.app_id, now(), i.letters, i.events
            FROM unnest($1::int4[], $2::int8[], $3::int8[]) AS i (app_id, letters, events)
            ORDER BY i.app_id
            ON CONFLICT (app_id) DO UPDATE SET
                began_at = CASE WHEN w.began_at > now() - $4::int8 * interval '1 millisecond'
                                THEN w.began_at ELSE now() END,
                letters = excluded.letters + CASE WHEN w.began_at > now() - $4::int8 * interval '1 millisecond'
                                                  THEN w.letters ELSE 0 END,
                events = excluded.events + CASE WHEN w.began_at > now() - $4::int8 * interval '1 millisecond'
                                                THEN w.events ELSE 0 END
            RETURNING w.app_id, w.letters, w.events
        ), judged AS (
            SELECT c.*, c.letters > $5::int8 AND c.letters * 100 >= c.events * $6::int8 AS is_over FROM counted c
        ), begun AS (
            INSERT INTO diversion (app_id, letters, events)
            SELECT j.app_id, j.letters, j.events FROM judged j WHERE j.is_over AND j.app_id <> 0 ORDER BY j.app_id
            ON CONFLICT (app_id) DO NOTHING
            RETURNING app_id
        )
        SELECT j.app_id, j.letters, j.events, j.is_over, EXISTS (SELECT 1 FROM begun b WHERE b.app_id = j.app_id)
        FROM judged j
        """

    let counts: [Count]
    let limits: DeadLetterLimits

    package init(_ counts: [Count], limits: DeadLetterLimits) {
        self.counts = counts
        self.limits = limits
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: counts.map(\.appID))
        parameters.append(array: counts.map(\.letters))
        parameters.append(array: counts.map(\.events))
        parameters.append(limits.window.wholeMilliseconds)
        parameters.append(Int64(limits.letters))
        parameters.append(Int64(limits.share))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            appID: try row.value(0), letters: try row.value(1), events: try row.value(2), isOver: try row.value(3),
            isDiverted: try row.value(4))
    }
}

/// An app whose events wait.
package struct Diversion: Hashable, Sendable {
    package let appID: Int32
    package let app: String
    package let divertedAt: Timestamp
    /// Events that had failed within a window when it began, of so many.
    package let letters: Int64
    package let events: Int64
    /// Diverted events that wait, counted up to the limit that was given.
    package let waiting: Int64
}

/// The diverted apps, with what waits of each.
package struct ListDiversions: PostgresStatement {
    package static let sql = """
        SELECT d.app_id, a.name, d.diverted_at, d.letters, d.events,
               (SELECT count(*) FROM (
                    SELECT 1 FROM dead_letter l
                    WHERE l.cause = 'diverted' AND l.app = a.name AND l.replayed_at IS NULL AND l.discarded_at IS NULL
                    LIMIT $1::int8) w)
        FROM diversion d JOIN app a ON a.id = d.app_id
        ORDER BY a.name
        """

    let countLimit: Int

    /// - Parameter countLimit: count what waits up to this; 0 does not count.
    package init(countLimit: Int) {
        self.countLimit = countLimit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(countLimit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Diversion {
        Diversion(
            appID: try row.value(0), app: try row.value(1),
            divertedAt: Timestamp(try row.value(2, as: PostgresTimestamp.self)), letters: try row.value(3),
            events: try row.value(4), waiting: try row.value(5))
    }
}

/// Locks an app's diversion against batches that divert; no row: it is not diverted.
package struct LockDiversion: PostgresStatement {
    package static let sql = """
        SELECT d.app_id FROM diversion d
        WHERE d.app_id = (SELECT a.id FROM app a WHERE a.name = $1::text)
        FOR UPDATE
        """

    let app: String

    package init(app: String) {
        self.app = app
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int32 {
        try row.value(0)
    }
}

/// Ends the diversion of an app, unless some of its events wait. It comes behind ``LockDiversion``, with a later snapshot,
/// so that nothing is diverted between the look and the end.
package struct EndDiversion: PostgresStatement {
    package static let sql = """
        DELETE FROM diversion d USING app a
        WHERE a.name = $1::text AND d.app_id = a.id
          AND NOT EXISTS (SELECT 1 FROM dead_letter l
                          WHERE l.cause = 'diverted' AND l.app = $1::text
                            AND l.replayed_at IS NULL AND l.discarded_at IS NULL)
        """

    let app: String

    package init(app: String) {
        self.app = app
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
    }
}

/// Forgets what has failed within the current window, of an app by its name or of the events that name none (nil).
package struct ForgetFailures: PostgresStatement {
    package static let sql = """
        DELETE FROM dead_letter_window
        WHERE app_id = CASE WHEN $1::text IS NULL THEN 0 ELSE (SELECT a.id FROM app a WHERE a.name = $1::text) END
        """

    let app: String?

    package init(app: String?) {
        self.app = app
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
    }
}
