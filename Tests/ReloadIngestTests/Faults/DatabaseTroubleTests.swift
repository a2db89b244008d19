// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// Transient errors of the database: nothing is lost or applied twice, and no event becomes a dead letter.
@Suite("Ingest waits until the database has recovered", .timeLimit(.patience))
struct DatabaseTroubleTests {
    private func place(_ users: Int, _ ingest: IngestHarness) async throws {
        _ = try await ingest.store.place((0..<users).map { .test("w\($0)", user: "u\($0)") })
        try await ingest.store.settle()
    }

    private func expectApplied(_ events: Int, _ ingest: IngestHarness, _ comment: String = "") async throws {
        try await ingest.waitUntilApplied(events)
        #expect(try await ingest.counted() == events, "\(comment)")
        #expect(try await ingest.store.integer("SELECT count(*) FROM dead_letter") == 0, "\(comment)")
    }

    /// Limits of ingest's connections; nil for the defaults.
    private struct Limits {
        var options: String?
        var statementTimeout: Duration?
        var idleInTransactionTimeout: Duration?
        var maximumConnections: Int?
        var acquireTimeout: Duration?

        func apply(to configuration: inout PostgresConfiguration) {
            if let options { configuration.connectionString += " options='\(options)'" }
            if let statementTimeout { configuration.statementTimeout = statementTimeout }
            if let idleInTransactionTimeout { configuration.idleInTransactionTimeout = idleInTransactionTimeout }
            if let maximumConnections { configuration.maximumConnections = maximumConnections }
            if let acquireTimeout { configuration.acquireTimeout = acquireTimeout }
        }
    }

    /// Retries `body` for as long as the pool has no connection to lend, or a busy machine exceeds a limit.
    private func patiently<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        while true {
            do { return try await body() } catch let error as PostgresError where error.isRetriable {}
        }
    }

    /// Runs ingest on a single partition through a proxy.
    private func withTrouble(
        _ limits: Limits = Limits(), maximumBatch: Int? = nil, log: RecordedLog = RecordedLog(level: .warning),
        _ body: (IngestHarness, TestStore.Proxied, IngestService) async throws -> Void
    ) async throws {
        try await IngestHarness.lend(partitions: 1, maximumBatch: maximumBatch) { ingest in
            try await place(16, ingest)
            try await ingest.store.throughProxy(configure: limits.apply) { proxied in
                // The pool has now opened a connection, which it lends at once whatever the limits are.
                _ = try await patiently { try await proxied.pool.query(.listPositions()) }
                let service = ingest.service(
                    on: proxied.pool, logger: log.logger,
                    configure: { configuration in
                        configuration.memberInterval = .seconds(3_600)
                        configuration.retryBase = .milliseconds(2)
                        configuration.retryCap = .milliseconds(50)
                    })
                try await ingest.running([service]) {
                    try await ingest.publish([ingest.push("u0")], key: "k")
                    try await ingest.waitUntilApplied(1)
                    try await body(ingest, proxied, service)
                }
            }
        }
    }

    private func pushes(_ ingest: IngestHarness) -> [FreshetEvent] { (0..<16).map { ingest.push("u\($0)") } }

    @Test(
        "Errors that are not an event's fault are retried until they stop",
        arguments: [
            "25006", "40001", "40P01", "53100", "53200", "53300", "53400", "55P03", "57014", "58030", "42501", "XX000",
            "P0001",
        ])
    func answers(state: String) async throws {
        let log = RecordedLog(level: .warning)
        try await withTrouble(log: log) { ingest, _, service in
            try await ingest.store.fail(writesTo: "timeline", with: state)
            try await ingest.publish(pushes(ingest), key: "k")
            try await eventually("the batch is retried repeatedly") { service.metrics.ingestRetries.total() >= 8 }
            #expect(service.status.blockedBy?.contains(state) == true, "not ready during the trouble")
            #expect(try await ingest.applied() == 1)
            try await ingest.store.healFaults()
            try await expectApplied(17, ingest, state)
            // The position is stored before the service learns of it.
            try await eventually("the service is ready again") { service.status.blockedBy == nil }
            let lines = log.count(of: "the database did not take a batch")
            #expect(lines == service.metrics.ingestRetries.total(), "one line for each wait, not for each event")
        }
    }

    @Test("A process that cannot register tries again within a second, however long its interval is")
    func registration() async throws {
        let log = RecordedLog(level: .warning)
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await place(16, ingest)
            try await ingest.store.fail(writesTo: "ingest_member", with: "XX000")
            let service = ingest.service(logger: log.logger, configure: { $0.memberInterval = .seconds(3_600) })
            try await ingest.running([service]) {
                try await eventually("the registration fails") { log.count(of: "cannot register this process") == 1 }
                try await ingest.store.healFaults()
                try await ingest.publish([ingest.push("u0")], key: "k")
                try await ingest.waitUntilApplied(1)
            }
        }
    }

    @Test(
        "An event's own error costs only that event",
        arguments: ["22P02", "22021", "23514", "54000"])
    func poison(state: String) async throws {
        try await withTrouble { ingest, _, service in
            try await ingest.store.fail(writesTo: "timeline", with: state, marker: ",u5,")
            try await ingest.publish(pushes(ingest), key: "k")
            try await ingest.waitUntilApplied(17)
            #expect(try await ingest.counted() == 16)
            #expect(try await ingest.store.integer("SELECT count(*) FROM dead_letter") == 1)
            #expect(service.metrics.ingestDeadLetters.total() == 1)
        }
    }

    @Test("After a deadlock with an operator's transaction, one of the two gives way and is retried")
    func deadlock() async throws {
        try await withTrouble(maximumBatch: 16) { ingest, _, service in
            let first = "(SELECT min(id) FROM timeline)"
            let middle = "(SELECT id FROM timeline ORDER BY id OFFSET 8 LIMIT 1)"
            let last = "(SELECT max(id) FROM timeline)"
            try await ingest.store.pool.withTransaction { connection in
                // The other session detects the deadlock.
                try await connection.simple("SET LOCAL deadlock_timeout = '60s'")
                try await connection.simple("SELECT 1 FROM timeline WHERE id = \(last) FOR UPDATE")
                let waiting = try await ingest.store.locking("timeline WHERE id = \(middle)") {
                    // The events gather while one without timelines waits, and so form one batch.
                    try await ingest.store.locking("consumer_position") {
                        try await ingest.publish([ingest.push("nobody")], key: "k")
                        try await ingest.store.waitUntilBlocked()
                        try await ingest.publish(pushes(ingest), key: "k")
                        try await eventually("a full batch waits") {
                            service.current.withLock { $0 }?.counters.messages == 18
                        }
                    }
                    try await ingest.waitUntilApplied(2)
                    try await ingest.store.waitUntilBlocked()
                    // This session waits before ingest closes the cycle: a session looks for a deadlock only once,
                    // after the first second of its wait.
                    let waiting = Task {
                        try await connection.simple("SELECT 1 FROM timeline WHERE id = \(first) FOR UPDATE")
                    }
                    try await ingest.store.waitUntilBlocked(2)
                    return waiting
                }
                try await waiting.value
            }
            try await ingest.waitUntilApplied(18)
            try await expectApplied(17, ingest)
            #expect(service.metrics.ingestRetries.total() >= 1, "ingest gave way")
        }
    }

    @Test("Two processes whose batches touch the same timelines collide a few times, not at every batch")
    func lockOrder() async throws {
        try await IngestHarness.lend(maximumBatch: 200) { ingest in
            _ = try await ingest.store.place((0..<200).map { .test("w\($0)", user: "u\($0)", device: "d\($0)") })
            try await ingest.store.settle()
            // One request by user and one by device are two statements in each transaction; both start with the first
            // rows.
            for _ in 0..<8 {
                try await ingest.publish(
                    (0..<1_500).map { number in
                        let target = Int.random(in: 0..<200)
                        return .reload(
                            ReloadRequest(
                                app: TestKinds.app,
                                audience: number % 2 == 0 ? .user("u\(target)") : .device("d\(target)"),
                                kinds: .all, reason: .push))
                    })
            }
            let services = [ingest.service(), ingest.service()]
            try await ingest.running(services) { try await ingest.waitUntilApplied(12_000) }
            #expect(try await ingest.counted() == 12_000)
            let retries = services.map { $0.metrics.ingestRetries.total() }
            #expect(retries.reduce(0, +) <= 8, "\(retries)")
        }
    }

    @Test("Ingest retries while a lock is held for longer than it waits")
    func lockTimeout() async throws {
        try await withTrouble(Limits(options: "-c lock_timeout=30ms")) {
            ingest, _, service in
            try await ingest.store.locking("timeline") {
                try await ingest.publish(pushes(ingest), key: "k")
                try await eventually("ingest has given up waiting repeatedly") {
                    service.metrics.ingestRetries.total() >= 5
                }
            }
            try await expectApplied(17, ingest)
        }
    }

    @Test("A batch that takes too long is halved, and its other events are applied")
    func statementTimeout() async throws {
        try await withTrouble(Limits(statementTimeout: .milliseconds(500))) { ingest, _, service in
            let mine = "timeline s JOIN widget w ON w.timeline_id = s.id AND w.user_id = 'u9'"
            try await ingest.store.pool.withTransaction { connection in
                try await connection.simple("SET LOCAL idle_in_transaction_session_timeout = 0")
                try await connection.simple("SELECT 1 FROM \(mine) FOR UPDATE OF s")
                try await ingest.publish(pushes(ingest), key: "k")
                // Only the events before the one that cannot be applied. Fewer retries precede these if the events come
                // in several batches.
                try await eventually("the events before it are applied") {
                    try await ingest.applied() == 10 && service.metrics.ingestRetries.total() >= 4
                }
                #expect(try await ingest.counted() == 10)
            }
            try await expectApplied(17, ingest)
        }
    }

    @Test("A batch too large for one statement is applied in several")
    func tooMuchMemory() async throws {
        try await withTrouble { ingest, _, _ in
            try await ingest.store.fail(writesTo: "timeline", with: "53200", above: 2)
            try await ingest.publish(pushes(ingest), key: "k")
            try await expectApplied(17, ingest)
        }
    }

    @Test("A session that is terminated because its transaction was idle is replaced")
    func idleInTransaction() async throws {
        try await withTrouble(Limits(idleInTransactionTimeout: .milliseconds(500))) {
            ingest, proxied, service in
            proxied.proxy.delay(.seconds(1))
            let moved = (0..<16).map { FreshetEvent.placed(.test("n\($0)", user: "n\($0)")) }
            try await ingest.publish(moved, at: Timestamp(microseconds: 1_700_000_000_000_000), key: "k")
            try await eventually("two sessions have been terminated") { service.metrics.ingestRetries.total() >= 2 }
            proxied.proxy.delay(.zero)
            try await eventually("all widgets are placed") {
                try await ingest.store.integer("SELECT count(*) FROM widget WHERE id LIKE 'n%'") == 16
            }
            #expect(try await ingest.store.integer("SELECT count(*) FROM dead_letter") == 0)
        }
    }

    @Test("Ingest recovers from cancelled statements and terminated sessions")
    func administrator() async throws {
        try await withTrouble { ingest, _, _ in
            for (round, function) in ["pg_cancel_backend", "pg_terminate_backend"].enumerated() {
                try await ingest.store.locking("timeline") {
                    try await ingest.publish(pushes(ingest), key: "k")
                    for _ in 0..<3 {
                        try await ingest.store.waitUntilBlocked()
                        try await ingest.store.sql(
                            """
                            SELECT \(function)(pid) FROM pg_stat_activity
                            WHERE datname = current_database() AND wait_event_type = 'Lock'
                            """)
                    }
                }
                try await expectApplied(1 + 16 * (round + 1), ingest, function)
            }
        }
    }

    @Test("Ingest retries while the pool has no free connection")
    func poolExhausted() async throws {
        try await withTrouble(Limits(maximumConnections: 1, acquireTimeout: .milliseconds(500))) {
            ingest, proxied, service in
            try await patiently {
                try await proxied.pool.withConnection { _ in
                    let before = service.metrics.ingestRetries.total()
                    try await ingest.publish(pushes(ingest), key: "k")
                    try await eventually("ingest has waited in vain twice") {
                        service.metrics.ingestRetries.total() >= before + 2
                    }
                }
            }
            try await expectApplied(17, ingest)
        }
    }

    /// Back-pressure: memory holds only the current batch, those that wait behind it and the one being built.
    /// Partitions are paused while the consumer stays in the group.
    @Test("A slow database pauses Kafka and keeps memory bounded, and the consumer stays in its group")
    func slow() async throws {
        let consumers = RecordedConsumers()
        try await IngestHarness.lend(partitions: 2, maximumBatch: 50) { ingest in
            try await place(16, ingest)
            try await ingest.store.throughProxy { proxied in
                let service = ingest.service(
                    on: proxied.pool, onConsumer: { consumers.append($0) },
                    configure: { $0.memberInterval = .seconds(3_600) })
                try await ingest.running([service]) {
                    try await ingest.publish([ingest.push("u0")])
                    try await ingest.waitUntilApplied(1)
                    proxied.proxy.delay(.milliseconds(1_500))
                    for _ in 0..<20 { try await ingest.publish((0..<100).map { ingest.push("u\($0 % 16)") }) }
                    let consumer = try #require(consumers.all.first)
                    try await eventually("fetching is paused") { consumer.counters.pauses >= 1 }
                    let taken = Int(consumer.counters.messages)
                    let applied = try await ingest.applied()
                    // The current batch and two that wait; messages taken before the pause are applied or among these.
                    #expect(taken - applied <= 4 * 50, "\(taken) taken, \(applied) applied")
                    #expect(consumer.counters.pauses >= 1 && service.metrics.ingestPartitions.total() == 8)
                    proxied.proxy.delay(.zero)
                    try await ingest.waitUntilApplied(2_001)
                    #expect(try await ingest.counted() == 2_001)
                    #expect(consumers.all.count == 1 && service.metrics.ingestFenced.total() == 0)
                }
            }
        }
    }
}

/// Consumers that a service has created.
final class RecordedConsumers: Sendable {
    private let made = Mutex<[KafkaConsumer]>([])

    var all: [KafkaConsumer] { made.withLock { $0 } }

    func append(_ consumer: KafkaConsumer) { made.withLock { $0.append(consumer) } }
}
