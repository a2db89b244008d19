// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// A stack of a test, with the messages about it.
enum StackSupport {
    static let key = StackPlan.Key(app: TestKinds.app, user: "u1", device: "d1", stack: "home")

    /// Sent messages by topic.
    final class Sent: Sendable {
        private let messages = Mutex<[KafkaMessage]>([])

        init(_ publisher: RecordingPublisher) {
            publisher.respond { sent in
                self.messages.withLock { $0 += sent }
                return nil
            }
        }

        func schedules() throws -> [JSONValue?] {
            try take("freshet.suggestions").map { try $0.value.map { try JSONValue.parse($0) } }
        }

        func events() throws -> [FreshetEvent] {
            try take("freshet.widgets").map { message in
                let headers = message.headers.map { ($0.name, String(decoding: $0.value ?? [], as: UTF8.self)) }
                return try EventDecoder().decode(message.value ?? [], headers: headers).event
            }
        }

        /// Returns each message once.
        private func take(_ topic: String) -> [KafkaMessage] {
            messages.withLock { messages in
                defer { messages.removeAll { $0.topic == topic } }
                return messages.filter { $0.topic == topic }
            }
        }
    }

    /// Scores in the provider's timelines, by kind; an entry has no relevance without one.
    final class Scores: Sendable {
        private let scores: Mutex<[String: Int]>

        init(_ scores: [String: Int]) {
            self.scores = Mutex(scores)
        }

        func set(_ kind: String, _ score: Int?) { scores.withLock { $0[kind] = score } }

        func timeline(_ id: TimelineID, _ kind: String) -> JSONValue {
            var entry: JSONValue = ["date": "2026-01-01T00:00:00Z", "content": ["n": .string(String.randomID())]]
            if let score = scores.withLock({ $0[kind] }), case .object(var object) = entry {
                object["relevance"] = ["score": .count(score)]
                entry = .object(object)
            }
            return ["id": .string("\(id)"), "policy": "never", "entries": [entry]]
        }
    }

    /// Two widgets in a stack with a read schedule.
    static func withStack(
        developerMode: Bool = false, _ body: (TestWorker, StackPlanning, Sent) async throws -> Void
    ) async throws {
        try await withWorker(developerMode: developerMode) { worker in
            try await worker.store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await worker.store.change(.stack(Self.arrangement()), at: Timestamp(microseconds: 1))
            try await worker.store.want(Self.key)
            try await body(
                worker, StackPlanning(context: worker.context, directory: worker.directory), Sent(worker.publisher))
        }
    }

    static func arrangement(_ widgets: [String] = ["w1", "w2"]) -> StackArrangement {
        StackArrangement(device: "d1", name: "home", widgets: widgets)
    }
}

extension TestStore {
    /// Applies a change as ingest does.
    func change(
        _ change: PersonChange, at time: Timestamp, user: String = "u1", app name: String = TestKinds.app
    ) async throws {
        let app = try #require(try await directory().apps[name])
        let key = PersonKey(appID: app.id, user: user)
        try await pool.withTransaction { connection in
            _ = try await connection.query(.createPeople([key]))
            let stored = try #require(try await connection.query(.readPeople([key])).first)
            var record = try #require(
                PersonRecord(app: app.name, habits: stored.habits, arrangement: stored.arrangement))
            let effect = record.apply(change, at: time)
            #expect(!effect.isIgnored)
            let write = PersonWrite(
                appID: app.id, user: user, arrangement: record.storedArrangement,
                planning: effect == .changed ? .now : .never)
            _ = try await connection.query(.writePeople([write]))
        }
    }

    func want(_ key: StackPlan.Key) async throws { try await store.wantSchedule(key) }

    func schedule(_ key: StackPlan.Key) async throws -> ReadSchedule? {
        try await pool.query(.readSchedules(app: key.app, user: key.user, stack: key.stack, device: key.device)).first
    }
}
