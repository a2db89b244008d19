package import PostgresClient
package import WidgetModel

/// A schedule as its readers see it.
package struct ReadSchedule: Sendable {
    package let device: String
    /// Identity; nil if the schedule was never read.
    package let id: TimelineID?
    /// JSON of the plan; nil: not planned yet.
    package let schedule: String?
    package let revision: Int64
    /// Whether the time of the last reader is to be recorded.
    package let isReadLongAgo: Bool
}

/// A person's stack of a name is looked up in the arrangement only where no schedule answers.
private let readSQL = """
    SELECT s.device_id, s.id, s.schedule, s.revision, s.read_at < now() - interval '1 hour' AS long_ago
    FROM stack_schedule s JOIN app a ON a.id = s.app_id
    WHERE a.name = $1::text AND s.user_id = $2::text AND s.stack = $3::text
        AND ($4::text IS NULL OR s.device_id = $4::text)
    ORDER BY s.device_id
    """

private let wantSQL = """
    INSERT INTO stack_schedule AS s (id, app_id, user_id, device_id, stack)
    SELECT $1::uuid, a.id, $3::text, $4::text, $5::text FROM app a WHERE a.name = $2::text
    ON CONFLICT (id) DO UPDATE
        SET read_at = now(), due_at = CASE WHEN s.schedule IS NULL THEN least(s.due_at, now()) ELSE s.due_at END
        WHERE s.read_at < now() - interval '1 hour' OR s.schedule IS NULL
    RETURNING s.app_id, xmax = 0 AS is_new
    """

/// Schedule of a stack on a device, for readers that are notified of changes.
package struct DeviceSchedule: Hashable, Sendable {
    package let id: TimelineID
    package let user: String
    package let stack: String
    package let revision: Int64
}

extension PostgresStatement where Self == Statements {
    /// The planned schedules of users on a device.
    package static func deviceSchedules(app: String, device: String, users: [String]) -> PostgresQuery<DeviceSchedule> {
        PostgresQuery(
            """
            SELECT s.id, s.user_id, s.stack, s.revision FROM stack_schedule s JOIN app a ON a.id = s.app_id
            WHERE a.name = $1::text AND s.device_id = $2::text AND s.user_id = ANY ($3::text[])
                AND s.schedule IS NOT NULL
            ORDER BY s.user_id, s.stack
            """, app, device, PostgresArray(users)
        ) { row in
            try DeviceSchedule(
                id: row.value("id"), user: row.value("user_id"), stack: row.value("stack"),
                revision: row.value("revision"))
        }
    }

    /// Reads the schedules of a user's stacks of a name.
    ///
    /// - Parameter device: nil: on any device.
    package static func readSchedules(
        app: String, user: String, stack: String, device: String?
    ) -> PostgresQuery<ReadSchedule> {
        PostgresQuery(readSQL, app, user, stack, device) { row in
            try ReadSchedule(
                device: row.value("device_id"), id: row.optional("id"), schedule: row.optional("schedule"),
                revision: row.value("revision"), isReadLongAgo: row.value("long_ago"))
        }
    }

    /// The arrangement of a user's stacks.
    package static func readArrangement(app: String, user: String) -> PostgresQuery<String?> {
        PostgresQuery(
            """
            SELECT p.arrangement FROM person p JOIN app a ON a.id = p.app_id
            WHERE a.name = $1::text AND p.user_id = $2::text
            """, app, user
        ) { row in try row.optional("arrangement") }
    }

    /// Requests plans of a stack from now on, as long as its schedule is read. Returns whether it was not planned
    /// before.
    package static func wantSchedule(_ key: StackPlan.Key) -> PostgresQuery<(appID: Int32, isNew: Bool)> {
        PostgresQuery(wantSQL, key.id, key.app, key.user, key.device, key.stack) { row in
            try (appID: row.value("app_id"), isNew: row.value("is_new"))
        }
    }
}

extension WidgetStore {
    /// Requests plans of a stack from now on, as long as its schedule is read.
    ///
    /// The user's other schedules are planned again after the first read, because the stack may take suggestions from
    /// them.
    package func wantSchedule(_ key: StackPlan.Key) async throws {
        guard let wanted = try await query(.wantSchedule(key)).first, wanted.isNew else { return }
        try await retryingConflicts {
            _ = try await pool.query(.replanStacks(of: [(wanted.appID, key.user)]))
        }
    }

    /// A user's stacks that have widgets.
    package func stacks(of user: String, app: String) async throws(PostgresError) -> [StackArrangement] {
        guard let text = try await query(.readArrangement(app: app, user: user)).first ?? nil else { return [] }
        guard let person = PersonRecord(app: app, habits: nil, arrangement: text) else {
            throw PostgresError(.decoding, "stored stacks of a person of app \(app)")
        }
        return person.stacks.map(\.arrangement).filter { !$0.widgets.isEmpty }
    }
}
