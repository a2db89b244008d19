// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// A user of an app.
package struct PersonKey: Sendable {
    package let appID: Int32
    package let user: String
    /// Whether the time zone of the person's widgets is wanted.
    package var needsTimeZone: Bool

    package init(appID: Int32, user: String, needsTimeZone: Bool = false) {
        self.appID = appID
        self.user = user
        self.needsTimeZone = needsTimeZone
    }

    fileprivate static let input = InputColumns<PersonKey>([
        .init("app_id") { $0.appID }, .init("user_id") { $0.user }, .init("needs_time_zone") { $0.needsTimeZone },
    ])
}

/// A person as stored, locked until the transaction ends.
package struct StoredPerson: Sendable {
    package let appID: Int32
    package let user: String
    package let habits: [UInt8]?
    package let arrangement: String?
    /// Zone of one of the person's widgets; nil: there is none, or it is not wanted.
    package let timeZone: String?
    /// Suggestions that have begun in the last 24 hours; empty if they are not wanted.
    package let suggested: [BegunSuggestion]

    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        appID = try row.value("app_id")
        user = try row.value("user_id")
        habits = try row.optional("habits")
        arrangement = try row.optional("arrangement")
        timeZone = try row.optional("time_zone")
        suggested = try row.array("suggested", of: String.self).compactMap(BegunSuggestion.init(stored:))
    }

    /// - Throws: `PostgresError` if the row is not what this version has stored.
    package func record(app: String) throws(PostgresError) -> PersonRecord {
        guard let record = PersonRecord(app: app, habits: habits, arrangement: arrangement) else {
            throw PostgresError(.decoding, "stored state of a person of app \(app)")
        }
        return record
    }
}

/// A suggestion that has begun on a device.
package struct BegunSuggestion: Hashable, Sendable {
    package let device: String
    package let at: Timestamp
}

extension BegunSuggestion {
    /// The time in microseconds, so that the text sorts by it, and the device.
    var stored: String { "\(at.microseconds) \(device)" }

    init?(stored text: String) {
        let parts = text.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, let microseconds = Int64(parts[0]) else { return nil }
        self.init(device: String(parts[1]), at: Timestamp(microseconds: microseconds))
    }
}

/// The new state of a person.
package struct PersonWrite: Sendable {
    /// When the schedules of the person's stacks are planned again.
    package enum Planning: Sendable {
        case never
        /// Within half a minute, so that donations, which are many, are gathered.
        case soon
        case now

        fileprivate var seconds: Int32? {
            switch self {
            case .never: nil
            case .soon: 30
            case .now: 0
            }
        }
    }

    package var appID: Int32
    package var user: String
    /// Nil: unchanged.
    package var habits: [UInt8]?
    package var arrangement: String?
    package var planning: Planning

    package init(
        appID: Int32, user: String, habits: [UInt8]? = nil, arrangement: String? = nil, planning: Planning = .now
    ) {
        self.appID = appID
        self.user = user
        self.habits = habits
        self.arrangement = arrangement
        self.planning = planning
    }

    fileprivate static let input = InputColumns<PersonWrite>([
        .init("app_id") { $0.appID }, .init("user_id") { $0.user }, .init("habits") { $0.habits },
        .init("arrangement") { $0.arrangement }, .init("plan_seconds") { $0.planning.seconds },
    ])
}

private let createPeopleSQL = """
    INSERT INTO person (app_id, user_id)
    SELECT i.app_id, i.user_id FROM \(PersonKey.input.rows("i"))
    WHERE NOT EXISTS (SELECT FROM person p WHERE p.app_id = i.app_id AND p.user_id = i.user_id)
    ORDER BY i.app_id, i.user_id
    ON CONFLICT DO NOTHING
    """

private let readPeopleSQL = """
    SELECT p.app_id, p.user_id, p.habits, p.arrangement,
           CASE WHEN i.needs_time_zone THEN (
               SELECT w.time_zone FROM widget w
               WHERE w.app_id = p.app_id AND w.user_id = p.user_id AND w.timeline_id IS NOT NULL
               LIMIT 1) END AS time_zone,
           '{}'::text[] AS suggested
    FROM \(PersonKey.input.rows("i")) JOIN person p ON p.app_id = i.app_id AND p.user_id = i.user_id
    ORDER BY p.app_id, p.user_id
    FOR NO KEY UPDATE OF p
    """

/// Schedules that are due already are locked as well: a planner that claimed one before the commit would read the old
/// person.
private let writePeopleSQL = """
    WITH input AS MATERIALIZED (
        SELECT *, now() + plan_seconds * interval '1 second' AS due_at
        FROM \(PersonWrite.input.rows("i"))
    ), written AS (
        UPDATE person p
        SET habits = coalesce(i.habits, p.habits), arrangement = coalesce(i.arrangement, p.arrangement)
        FROM input i WHERE p.app_id = i.app_id AND p.user_id = i.user_id
    ), locked AS (
        SELECT s.id, i.due_at, s.due_at > i.due_at AS is_later
        FROM input i JOIN stack_schedule s ON s.app_id = i.app_id AND s.user_id = i.user_id
        WHERE i.due_at IS NOT NULL
        ORDER BY s.id
        FOR NO KEY UPDATE OF s
    )
    UPDATE stack_schedule s SET due_at = least(s.due_at, l.due_at) FROM locked l WHERE s.id = l.id AND l.is_later
    """

private let ownersSQL = """
    SELECT DISTINCT w.app_id, w.user_id
    FROM \(WidgetScope.widgets.rows("i")) JOIN widget w ON w.app_id = i.app_id AND w.id = i.id
    """

private let suggestionInput = InputColumns<(person: StackMaterial.Person, begun: BegunSuggestion)>([
    .init("app_id") { $0.person.appID }, .init("user_id") { $0.person.user }, .init("suggested") { $0.begun.stored },
])

private let recordSuggestionsSQL = """
    WITH input AS MATERIALIZED (
        SELECT i.app_id, i.user_id, array_agg(i.suggested) AS suggested
        FROM \(suggestionInput.rows("i")) GROUP BY i.app_id, i.user_id
    ), locked AS MATERIALIZED (
        SELECT i.* FROM input i JOIN person p ON p.app_id = i.app_id AND p.user_id = i.user_id
        ORDER BY p.app_id, p.user_id
        FOR NO KEY UPDATE OF p
    )
    UPDATE person p
    SET suggested = ARRAY(
        SELECT DISTINCT s.text FROM unnest(p.suggested || l.suggested) s (text)
        WHERE split_part(s.text, ' ', 1)::numeric > extract(epoch FROM now() - interval '24 hours') * 1000000
        ORDER BY s.text DESC LIMIT 64)
    FROM locked l WHERE p.app_id = l.app_id AND p.user_id = l.user_id
    """

extension PostgresStatement where Self == Statements {
    /// Creates rows for people who have none, in key order.
    package static func createPeople(_ keys: [PersonKey]) -> PostgresQuery<Void> {
        PostgresQuery(createPeopleSQL, binding: PersonKey.input.parameters(keys))
    }

    /// Reads the owners of widgets without a lock.
    package static func ownersOfWidgets(_ widgets: [WidgetScope.Name]) -> PostgresQuery<PersonKey> {
        PostgresQuery(ownersSQL, binding: WidgetScope.widgets.parameters(widgets)) { row in
            try PersonKey(appID: row.value("app_id"), user: row.value("user_id"))
        }
    }

    /// Locks and reads people, in key order.
    package static func readPeople(_ keys: [PersonKey]) -> PostgresQuery<StoredPerson> {
        PostgresQuery(readPeopleSQL, binding: PersonKey.input.parameters(keys)) { row in try StoredPerson(row) }
    }

    /// Writes people whose rows the transaction has locked, and makes the schedules of their stacks due.
    package static func writePeople(_ writes: [PersonWrite]) -> PostgresQuery<Void> {
        PostgresQuery(writePeopleSQL, binding: PersonWrite.input.parameters(writes))
    }

    /// Adds suggestions that have begun to those of people. The ones of the last 24 hours are kept, 64 for a person at
    /// most.
    package static func recordSuggestions(
        _ suggestions: [(person: StackMaterial.Person, begun: BegunSuggestion)]
    ) -> PostgresQuery<Void> {
        PostgresQuery(recordSuggestionsSQL, binding: suggestionInput.parameters(suggestions))
    }
}

/// Number of stored people, mean size of a row, and size of the table with its index.
package typealias PeopleSize = (people: Int64, rowBytes: Double, totalBytes: Int64)

extension PostgresStatement where Self == Statements {
    /// Measures all stored people: reads the whole table.
    package static func peopleSize() -> PostgresQuery<PeopleSize> {
        PostgresQuery(
            """
            SELECT count(*) AS people, coalesce(avg(pg_column_size(p)), 0)::float8 AS row_bytes,
                   pg_total_relation_size('person') AS total_bytes
            FROM person p
            """
        ) { row in
            try PeopleSize(
                people: row.value("people"), rowBytes: row.value("row_bytes"), totalBytes: row.value("total_bytes"))
        }
    }
}

/// A stack of an import, with the time of its last change.
package typealias ImportedStack = (app: RegisteredApp, user: String, arrangement: StackArrangement, time: Timestamp)

extension WidgetStore {
    /// Writes a chunk of stacks in one transaction. As with events, an older time never overrides a newer one, and no
    /// time is after the database's.
    ///
    /// - Throws: `PostgresError`; nothing of the chunk is written then.
    package func importStacks(_ stacks: [ImportedStack]) async throws -> ImportCounts {
        guard !stacks.isEmpty else { return ImportCounts() }
        return try await retryingConflicts(isIdempotent: false) {
            try await pool.withTransaction { connection in
                let people = Dictionary(grouping: stacks) { ScopedIdentifier($0.app.id, $0.user) }
                let keys = people.keys.map { PersonKey(appID: $0.appID, user: $0.id.text) }
                var pipeline = PostgresPipeline()
                _ = pipeline.append(.createPeople(keys))
                let read = pipeline.append(.readPeople(keys))
                let clock = pipeline.append(.databaseTime())
                let results = try await connection.run(pipeline)
                let now = results.rows(clock).first ?? .distantFuture
                var counts = ImportCounts()
                var writes: [PersonWrite] = []
                for person in results.rows(read) {
                    let changes = people[ScopedIdentifier(person.appID, person.user)] ?? []
                    var record = try person.record(app: changes.first?.app.name ?? "")
                    record.forgetTimes(after: now)
                    let effects = changes.map { record.apply(.stack($0.arrangement), at: min($0.time, now)) }
                    let applied = effects.count { !$0.isIgnored }
                    counts.stacks += applied
                    counts.older += changes.count - applied
                    guard applied > 0 else { continue }
                    writes.append(
                        PersonWrite(
                            appID: person.appID, user: person.user, arrangement: record.storedArrangement,
                            planning: effects.contains(.changed) ? .now : .never))
                }
                if !writes.isEmpty { _ = try await connection.query(.writePeople(writes)) }
                return counts
            }
        }
    }
}

/// The cleared person is locked before the schedules, as in writes of people. The contents that habits are about are
/// the last member of the arrangement (``PersonRecord/storedArrangement``).
private let clearHabitsSQL = """
    WITH cleared AS (
        UPDATE person p
        SET habits = NULL, arrangement = regexp_replace(p.arrangement, ',"viewed":\\[.*\\]\\}$', '}')
        WHERE p.app_id = (SELECT a.id FROM app a WHERE a.name = $1::text) AND p.user_id = $2::text
            AND p.habits IS NOT NULL
        RETURNING p.app_id, p.user_id
    ), locked AS (
        SELECT s.id, s.due_at > now() AS is_later
        FROM cleared c JOIN stack_schedule s ON s.app_id = c.app_id AND s.user_id = c.user_id
        ORDER BY s.id
        FOR NO KEY UPDATE OF s
    ), due AS (
        UPDATE stack_schedule s SET due_at = now() FROM locked l WHERE s.id = l.id AND l.is_later
    )
    SELECT count(*) > 0 AS cleared FROM cleared
    """

extension WidgetStore {
    /// Deletes what was learned about when a user looks, and makes the schedules of the user's stacks due. Stacks,
    /// shortcuts and widgets stay.
    ///
    /// - Returns: whether anything had been learned.
    /// - Throws: `PostgresError`.
    package func clearHabits(of user: String, app: String) async throws -> Bool {
        try await retryingConflicts { try await pool.query(.clearHabits(app: app, user: user)).first ?? false }
    }
}

extension PostgresStatement where Self == Statements {
    /// Clears a user's habits; answers whether there were any.
    package static func clearHabits(app: String, user: String) -> PostgresQuery<Bool> {
        PostgresQuery(clearHabitsSQL, app, user) { row in try row.value("cleared") }
    }
}
