// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import Logging
import PostgresClient
import TestSupport
import WidgetEvents
import WidgetModel
import WidgetStore

/// Compares people and the schedules of their stacks with the log and the suggestions topic when all work is done.
struct PersonCheck {
    let world: ChaosWorld
    let model: ChaosModel
    let kafka: ChaosKafka
    let pool: PostgresPool
    let report: ChaosReport

    func run() async throws {
        try await checkPeople()
        try await checkSchedules()
    }

    private func checkPeople() async throws {
        var left = model.people
        for row in try await pool.query(StoredPeople()) {
            let key = ChaosWorld.key(row.app, row.user)
            let app = world.apps.first { $0.name == row.app }
            let expected = left.removeValue(forKey: key)?.record(
                app: row.app, user: row.user, kinds: app?.kinds.map(\.definition) ?? [])
            let stored = PersonRecord(app: row.app, habits: row.habits, arrangement: row.arrangement)
            report.checked(.exactlyOnce)
            if stored == nil || stored != expected {
                report.violated(
                    .exactlyOnce,
                    "person \(key): stored \(row.arrangement ?? "-") and \(row.habits?.count ?? 0) bytes of habits, the log says "
                        + "\(expected?.storedArrangement ?? "nothing") and \(expected?.habits.encoded.count ?? 0) bytes"
                )
            }
        }
        // Turning a stack that does not exist, or to a widget outside the stack, has no effect.
        for (key, person) in left where person.hasEffect {
            report.violated(.exactlyOnce, "person \(key) is not stored")
        }
    }

    /// Gives every stack a reader, and checks that the planned schedules are the published ones.
    private func checkSchedules() async throws {
        let keys = Self.keys(of: model)
        for key in keys { _ = try await pool.query(.wantSchedule(key)) }
        try await eventually("all schedules are planned and published", every: .milliseconds(200)) {
            try await pool.query(OpenSchedules()).first == 0
        }
        let published = try await latest()
        let directory = try await DirectoryCache(pool: pool).refresh()
        let wanted = Dictionary(keys.map { ($0.id, $0) }) { $1 }
        var stored: Set<TimelineID> = []
        var rotating = 0
        for row in try await pool.query(StoredSchedules()) {
            stored.insert(row.id)
            if let key = wanted[row.id] { try await checkPlan(key, stored: row.schedule, directory) }
            let message = published[row.id]
            var expected = try JSONValue.parse(row.schedule).objectValue ?? JSONObject()
            if case .array(let rotations)? = expected["rotations"], rotations.count > 1 { rotating += 1 }
            expected["revision"] = .count(row.revision)
            report.checked(.publishedIsStored)
            if message?.revision != row.revision || message?.value != .object(expected) {
                report.violated(
                    .publishedIsStored,
                    "schedule \(row.id): stored is revision \(row.revision), published "
                        + "\(message.map { "\($0.revision)" } ?? "nothing")")
            }
        }
        report.say("\(stored.count) stacks are planned, \(rotating) of them with rotations")
        // A short run may have few stacks.
        if keys.count >= 16, rotating == 0 {
            report.violated(.noLostReload, "none of \(keys.count) stacks rotates, so that their plans prove nothing")
        }
        for key in keys where !stored.contains(key.id) {
            report.violated(.noLostReload, "the stack of \(key.app) \(key.user) has no schedule")
        }
        for (id, message) in published where !stored.contains(id) && message.value != nil {
            report.violated(.publishedIsStored, "schedule \(id) is gone, but the last message is not a tombstone")
        }
    }

    /// Plans a stack again from the final state: nothing may come out of it that is not stored, or a change has been
    /// lost.
    private func checkPlan(
        _ key: StackPlan.Key, stored text: String, _ directory: KindDirectory
    ) async throws {
        guard let app = directory.apps[key.app]?.id,
            let stored = StackPlan(stored: try JSONValue.parse(text), key: key)
        else { return report.violated(.noLostReload, "the plan of \(key.app) \(key.user) cannot be read: \(text)") }
        let material = try await StackMaterial.read([(app, key.user)], from: pool, directory)
        let now = max(Timestamp.now(), stored.plannedAt)
        let planner = material.planner(
            for: key.device, of: (app, key.user), app: key.app, policy: RotationPolicy(), at: now)
        report.checked(.noLostReload)
        guard let plan = planner.plan(key, after: stored, at: now), plan.continues(stored) else {
            return report.violated(
                .noLostReload, "the plan of \(key.app) \(key.user) does not fit the person's state: \(text)")
        }
    }

    /// Stacks with widgets that stay.
    static func keys(of model: ChaosModel) -> [StackPlan.Key] {
        model.people.compactMap { key, person in
            let names = key.split(separator: " ").map(String.init)
            guard let stack = person.stack, !stack.widgets.isEmpty, names.count == 2 else { return nil }
            return StackPlan.Key(app: names[0], user: names[1], device: "\(names[1])-d0", stack: PersonEvent.stack)
        }
    }

    private typealias Message = (revision: Int64, value: JSONValue?)

    /// Message with the highest revision for each key.
    private func latest() async throws -> [TimelineID: Message] {
        let logger = Logger(label: "chaos") { _ in SwiftLogNoOpLogHandler() }
        let admin = KafkaAdmin(configuration: kafka.configuration, logger: logger)
        let reader = KafkaReader(configuration: kafka.configuration, logger: logger)
        let places = (0..<Int32(ChaosKafka.partitions)).map {
            TopicPartition(topic: kafka.topics.suggestions, partition: $0)
        }
        var latest: [TimelineID: Message] = [:]
        for (place, bounds) in try await admin.bounds(of: places) where !bounds.isEmpty {
            var next = bounds.lowerBound
            while next < bounds.upperBound {
                let last = min(next + 1_000, bounds.upperBound) - 1
                guard let batch = try await reader.messages(of: place, at: next...last) else { break }
                for index in 0..<batch.count {
                    guard let key = batch.key(index), let id = TimelineID(bytes: batch.bytes[key]),
                        let header = batch.header(index, named: EncodedEvent.revisionHeader),
                        let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self)),
                        revision >= latest[id]?.revision ?? 0
                    else { continue }
                    latest[id] = (revision, try batch.value(index).map { try JSONValue.parse(Array(batch.bytes[$0])) })
                }
                next = last + 1
            }
        }
        return latest
    }
}

struct StoredPeople: PostgresStatement {
    struct Row: Sendable {
        let app: String
        let user: String
        let habits: [UInt8]?
        let arrangement: String?
    }

    let sql = """
        SELECT a.name AS app, p.user_id, p.habits, p.arrangement FROM person p JOIN app a ON a.id = p.app_id
        WHERE p.habits IS NOT NULL OR p.arrangement IS NOT NULL
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            app: try row.value("app"), user: try row.value("user_id"), habits: try row.optional("habits"),
            arrangement: try row.optional("arrangement"))
    }
}

struct StoredSchedules: PostgresStatement {
    struct Row: Sendable {
        let id: TimelineID
        let revision: Int64
        let schedule: String
    }

    let sql = "SELECT id, revision, schedule FROM stack_schedule WHERE schedule IS NOT NULL"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(id: try row.value("id"), revision: try row.value("revision"), schedule: try row.value("schedule"))
    }
}

/// Number of schedules that are due or unpublished.
struct OpenSchedules: PostgresStatement {
    let sql = """
        SELECT count(*) AS open FROM stack_schedule
        WHERE due_at < now() + interval '40 seconds' OR leased_until IS NOT NULL OR NOT published OR schedule IS NULL
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value("open") }
}
