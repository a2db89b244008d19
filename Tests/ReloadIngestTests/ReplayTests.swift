// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import PostgresClient
import Randomness
import ServiceLifecycle
import TestSupport
import Testing
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Waiting events can be replayed, each once", .timeLimit(.patience))
struct ReplayTests {
    private let late = IngestHarness.lateApp
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)

    private var ofLate: DeadLetterFilter { DeadLetterFilter(owner: .app(late)) }

    /// Publishes 30 reloads and a placement of an app that is not registered.
    private func withUnregisteredApp(_ body: (IngestHarness) async throws -> Void) async throws {
        try await IngestHarness.lend(deadLetters: .few(2)) { ingest in
            try await ingest.running([ingest.service()]) {
                try await ingest.publish((0..<30).map { _ in ingest.everyone(late) })
                try await ingest.publish([.placed(.test("w1", app: late))], at: at)
                try await ingest.waitUntilApplied(31)
            }
            try await body(ingest)
        }
    }

    @Test("Events of an unregistered app are kept without counting as failures, and fail again if replayed too early")
    func unregistered() async throws {
        try await withUnregisteredApp { ingest in
            #expect(try await ingest.letters("cause = 'unknownApp' AND pointer = '/app'") == 31)
            let outcome = try await ingest.replayer.replay(ofLate)
            #expect(outcome.replayed == 0 && outcome.failures == ["unknownApp": 31])
            #expect(try await ingest.letters("replayed_at IS NULL AND replays = 1") == 31)
        }
    }

    @Test("After the registration a rehearsal applies nothing, and two replays at a time apply each event once")
    func registered() async throws {
        try await withUnregisteredApp { ingest in
            try await ingest.register(late)
            var options = DeadLetterReplayer.Options()
            options.isRehearsal = true
            #expect(try await ingest.replayer.replay(ofLate, options).replayed == 31)
            #expect(try await ingest.generation(of: late) == 0)
            #expect(try await ingest.letters("replayed_at IS NULL AND replays = 0") == 31)

            async let one = ingest.replayer.replay(ofLate)
            async let two = ingest.replayer.replay(ofLate)
            let counts = try await (one.replayed, two.replayed)
            #expect(counts.0 + counts.1 == 31)
            #expect(try await ingest.replayer.replay(ofLate).replayed == 0)
            #expect(try await ingest.generation(of: late) == 30)
            #expect(try await ingest.store.widget("w1", app: late) != nil)
            #expect(try await ingest.letters("replayed_at IS NOT NULL AND replays = 1") == 31)
        }
    }

    @Test("A replay applies good events, isolates refused ones, and keeps failing ones with their new errors")
    func failsAgain() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.running([ingest.service()]) {
                let placements = ["w1", "poison", "w2"].map { FreshetEvent.placed(.test($0, app: late)) }
                try await ingest.publish(placements + [ingest.everyone(late, kinds: .kinds(["Nothing"]))], at: at)
                try await ingest.waitUntilApplied(4)
            }
            try await ingest.register(late)
            try await ingest.store.sql("ALTER TABLE widget ADD CONSTRAINT no_poison CHECK (id <> 'poison')")
            let outcome = try await ingest.replayer.replay(ofLate)
            #expect(outcome.replayed == 2)
            #expect(outcome.failures == ["databaseRefused": 1, "unknownKind": 1])
            #expect(try await ingest.store.integer("SELECT count(*) FROM widget") == 2)
            #expect(try await ingest.letters("cause = 'refused' AND replayed_at IS NULL AND replays = 1") == 1)
            #expect(try await ingest.letters("code = 'unknownKind' AND pointer = '/kinds'") == 1)

            try await ingest.store.sql("ALTER TABLE widget DROP CONSTRAINT no_poison")
            var filter = ofLate
            filter.causes = [.refused]
            #expect(try await ingest.replayer.replay(filter).replayed == 1)
            #expect(try await ingest.store.integer("SELECT count(*) FROM widget") == 3)
        }
    }

    @Test("A wrong time refuses no push, and a replay applies other events without their times")
    func wrongTime() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            func message(_ event: FreshetEvent, _ isStructured: Bool) throws -> KafkaMessage {
                let encoded = event.encode(id: "e", source: "/t", time: nil)
                guard isStructured else {
                    let headers = encoded.headers + [(name: "ce_time", value: Array("yesterday".utf8))]
                    return KafkaMessage(
                        topic: ingest.topic(of: event), key: nil, value: encoded.value, headers: headers)
                }
                let data = try JSONValue.parse(try #require(encoded.value))
                let value: JSONValue = [
                    "specversion": "1.0", "id": "e", "source": "/t", "time": 17, "data": data,
                    "type": .string(event.type.rawValue),
                ]
                return KafkaMessage(topic: ingest.topic(of: event), value: value.encoded)
            }
            let messages = [
                try message(ingest.everyone(TestKinds.app), false), try message(ingest.everyone(TestKinds.app), true),
                try message(.placed(.test("w1")), false), try message(.placed(.test("w2")), true),
            ]
            for result in await ingest.producer.send(messages) { _ = try result.get() }
            try await ingest.running([ingest.service()]) { try await ingest.waitUntilApplied(4) }
            #expect(try await ingest.generation(of: TestKinds.app) == 2)
            #expect(try await ingest.letters("code = 'invalidAttribute'") == 2)
            let filter = DeadLetterFilter(owner: .app(TestKinds.app))
            #expect(try await ingest.replayer.replay(filter).failures == ["invalidAttribute": 2])
            var options = DeadLetterReplayer.Options()
            options.ignoresTimes = true
            #expect(try await ingest.replayer.replay(filter, options).replayed == 2)
            #expect(
                try await ingest.store.integer(
                    "SELECT count(*) FROM widget WHERE changed_at BETWEEN now() - interval '1 hour' AND now()") == 2)
        }
    }

    @Test("A replayed event about a widget does not override a newer one")
    func oldLifecycle() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.running([ingest.service()]) {
                try await ingest.publish([.placed(.test("w1", app: late))], at: at)
                try await ingest.waitUntilApplied(1)
                try await ingest.register(late)
                try await ingest.publish([.placed(.test("w1", app: late))], at: at + .seconds(10))
                try await ingest.publish([.removed(app: late, widget: "w1")], at: at + .seconds(20))
                try await ingest.waitUntilApplied(3)
            }
            #expect(try await ingest.replayer.replay(ofLate).replayed == 1)
            #expect(try await ingest.store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 0)
        }
    }

    @Test("Setting a partition back stores a message once and, as documented, applies its effect again")
    func setBack() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let topic = ingest.configuration.topics.pushes
            try await ingest.publish((0..<3).map { _ in ingest.everyone(late) })
            try await ingest.running([ingest.service()]) { try await ingest.waitUntilApplied(3) }
            _ = try await ingest.store.pool.execute(.setPosition(topic: topic, partition: 0, nextOffset: 0))
            try await ingest.running([ingest.service()]) { try await ingest.waitUntilApplied(3) }
            #expect(try await ingest.letters("true") == 3)
        }
    }

    @Test("Letters that one forwarder publishes are left out by others, until it gives them back or its lease ends")
    func forwardingLeases() async throws {
        try await withStore { store in
            for offset in 0..<Int64(3) {
                let letter = DeadLetter(
                    topic: "t", partition: 0, offset: offset, app: nil, code: "invalidValue", error: "e", key: nil,
                    headers: [], payload: [1])
                _ = try await store.pool.execute(.insertDeadLetter(letter))
            }
            func take(_ limit: Int, lease: Duration = .seconds(600)) async throws -> [Int64] {
                try await store.pool.query(.deadLettersToForward(limit: limit, lease: lease)).map(\.id)
            }
            let (first, second) = (try await take(2), try await take(9))
            #expect(first.count == 2 && second.count == 1 && Set(first).isDisjoint(with: second))
            #expect(try await take(9).isEmpty)
            _ = try await store.pool.execute(.releaseDeadLetters(first))
            #expect(try await take(9, lease: .zero) == first)
            // The lease is over.
            #expect(try await take(9) == first)
        }
    }

    @Test("While Kafka is away, the forwarder holds no connection, and its letters wait until it is back")
    func outage() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            for offset in 0..<Int64(150) {
                let letter = DeadLetter(
                    topic: "t", partition: 0, offset: offset, app: nil, code: "invalidValue", error: "e", key: nil,
                    headers: [], payload: [1])
                _ = try await ingest.store.pool.execute(.insertDeadLetter(letter))
            }
            let port = try await FreePort.find()
            let absent = try KafkaProducer(
                configuration: KafkaConfiguration(bootstrapServers: "127.0.0.1:\(port)"),
                deliveryTimeout: .seconds(2), logger: IngestHarness.quiet)
            func forwarder(_ producer: KafkaProducer) -> DeadLetterForwarder {
                DeadLetterForwarder(
                    pool: ingest.store.pool, producer: producer, topic: ingest.configuration.deadLetterTopic,
                    signal: Signal(), interval: .milliseconds(50), logger: IngestHarness.quiet)
            }
            try await ingest.running([forwarder(absent)]) {
                try await eventually("letters are leased and nobody holds a connection", every: .milliseconds(5)) {
                    let leased = try await ingest.letters("forwarding_until > now()")
                    return leased == 100 && ingest.store.pool.statistics.lent == 0
                }
                #expect(
                    try await ingest.store.integer(
                        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
                            + " AND datname = current_database()") == 0)
                // Another process publishes the others meanwhile.
                try await ingest.running([forwarder(ingest.producer)]) {
                    try await eventually("the other letters are forwarded") {
                        try await ingest.letters("forwarded_at IS NOT NULL") >= 50
                    }
                }
            }
            await absent.shutdown()
            try await ingest.running([forwarder(ingest.producer)]) {
                try await eventually("all letters are forwarded") {
                    try await ingest.letters("forwarded_at IS NOT NULL") == 150
                }
            }
        }
    }

    @Test("The forwarder belongs to the background work, which holds a part of the connections")
    func background() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let pool = ingest.store.pool
            let letter = DeadLetter(
                topic: "t", partition: 0, offset: 1, app: late, code: "invalidValue", error: "e", key: nil, headers: [],
                payload: [1])
            _ = try await pool.execute(.insertDeadLetter(letter))
            let forwarder = DeadLetterForwarder(
                pool: pool, producer: ingest.producer, topic: ingest.configuration.deadLetterTopic,
                signal: Signal(), logger: IngestHarness.quiet)
            let share = max(1, pool.configuration.maximumConnections / 4)
            let gate = Gate()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<share {
                    group.addTask {
                        try await PostgresPool.inBackground {
                            try await pool.withConnection { _ in try await gate.pass() }
                        }
                    }
                }
                try await eventually("the share is in use") { pool.statistics.lent == share }
                group.addTask { _ = try await forwarder.forward() }
                try await eventually("the forwarder waits") { pool.statistics.waiting == 1 }
                #expect(pool.statistics.lent == share)
                gate.open()
                try await group.waitForAll()
            }
            #expect(try await ingest.letters("forwarded_at IS NOT NULL") == 1)
        }
    }

    @Test("Letters that Kafka refuses are given up without delaying others; old letters are deleted in chunks")
    func forwarderAndRetention() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            func insert(_ offset: Int64, header: Int, code: String = "invalidValue") async throws {
                let letter = DeadLetter(
                    topic: "t", partition: 0, offset: offset, app: late, code: code, error: "e", key: nil,
                    headers: [(name: "h", value: Array(repeating: 7, count: header))], payload: [1])
                _ = try await ingest.store.pool.execute(.insertDeadLetter(letter))
            }
            for offset in 0..<Int64(3) { try await insert(offset, header: 2_000_000) }
            try await insert(3, header: 10)
            try await insert(4, header: 10, code: "diverted")
            let signal = Signal()
            let forwarder = DeadLetterForwarder(
                pool: ingest.store.pool, producer: ingest.producer, topic: ingest.configuration.deadLetterTopic,
                signal: signal, interval: .milliseconds(50), logger: IngestHarness.quiet)
            try await ingest.running([forwarder]) {
                try await eventually("the good letter is forwarded and the others are given up") {
                    let forwarded = try await ingest.letters("forwarded_at IS NOT NULL AND \"offset\" = 3")
                    let given = try await ingest.letters("unforwardable_at IS NOT NULL AND forward_error IS NOT NULL")
                    return forwarded == 1 && given == 3
                }
            }
            #expect(try await ingest.letters("forward_failures = 5") == 3)
            #expect(try await ingest.letters("cause = 'diverted' AND forwarded_at IS NULL") == 1)

            try await ingest.store.sql(
                """
                UPDATE dead_letter SET forwarded_at = now() - interval '40 days' WHERE "offset" = 3;
                UPDATE dead_letter SET replayed_at = now() - interval '40 days' WHERE "offset" = 2;
                UPDATE dead_letter SET discarded_at = now() WHERE "offset" = 1;
                INSERT INTO dead_letter (topic, partition, "offset", app, code, error, header_names, header_values,
                                         forwarded_at)
                SELECT 't', 1, n, 'a', 'c', 'e', '{}', '{}', now() - interval '31 days' FROM generate_series(1, 2500) n;
                """)
            let retention = RowRetention(
                of: [.deadLetters(olderThan: .seconds(30 * 86_400), pace: .zero)], pool: ingest.store.pool,
                logger: IngestHarness.quiet)
            #expect(try await retention.prune() == 2502)
            #expect(try await ingest.letters("\"offset\" IN (0, 1, 4)") == 3)
            #expect(try await ingest.letters("true") == 3)
        }
    }
}

@Suite("Good events are applied once, whatever the order of replays and restarts", .timeLimit(.patience))
struct ReplayPropertyTests {
    @Test(
        "Good, bad and foreign events, diversions, restarts and replays in any order", arguments: [1, 2, 3] as [UInt64])
    func property(seed: UInt64) async throws {
        try await IngestHarness.lend(maximumBatch: 40, deadLetters: .few(8, share: 5)) { ingest in
            var random = SeededGenerator(seed: seed)
            let late = IngestHarness.lateApp
            let apps = [TestKinds.app, TestKinds.otherApp, late]
            _ = try await ingest.store.place((0..<10).map { .test("w\($0)", user: "u\($0)") })
            try await ingest.store.settle()
            var generations: [String: Int] = [:]
            var laterGenerations = 0
            var pushes: [Int: Int] = [:]
            var published = 0

            func publishSome() async throws {
                var events: [FreshetEvent] = []
                for _ in 0..<Int.random(in: 5...60, using: &random) {
                    switch Int.random(in: 0..<10, using: &random) {
                    case 0...3:
                        let user = Int.random(in: 0..<10, using: &random)
                        pushes[user, default: 0] += 1
                        events.append(ingest.push("u\(user)"))
                    case 4...7:
                        let app = apps.randomElement(using: &random) ?? late
                        generations[app, default: 0] += 1
                        events.append(ingest.everyone(app, kinds: .kinds(["Purchases"])))
                    case 8:
                        laterGenerations += 1
                        events.append(ingest.bad(TestKinds.otherApp))
                    default:
                        events.append(ingest.everyone(TestKinds.app, kinds: .kinds(["Never"])))
                    }
                }
                events.shuffle(using: &random)
                try await ingest.publish(events)
                published += events.count
            }

            func disturb() async throws {
                switch Int.random(in: 0..<4, using: &random) {
                case 0: _ = try await ingest.replayer.resume(app: apps.randomElement(using: &random) ?? late)
                case 1:
                    let owner = DeadLetterFilter.Owner.app(apps.randomElement(using: &random) ?? late)
                    _ = try await ingest.replayer.replay(DeadLetterFilter(owner: owner))
                case 2:
                    async let one = ingest.replayer.replay(DeadLetterFilter())
                    async let two = ingest.replayer.replay(DeadLetterFilter())
                    _ = try await (one, two)
                default: break
                }
            }

            for round in 0..<6 {
                // Each round is another process.
                let service = ingest.service()
                try await ingest.running([service]) {
                    for _ in 0..<3 {
                        try await publishSome()
                        try await disturb()
                    }
                    // librdkafka 2.0.2 aborts when a consumer is closed before its first assignment (librdkafka#4312).
                    try await eventually("the consumer has partitions") {
                        service.metrics.ingestPartitions.total() > 0
                    }
                }
                if round == 3 {
                    try await ingest.register(late)
                    try await ingest.register(TestKinds.otherApp, kind: "Later")
                }
            }
            let total = published
            try await ingest.running([ingest.service()]) { try await ingest.waitUntilApplied(total) }
            for app in apps { _ = try await ingest.replayer.resume(app: app) }
            _ = try await ingest.replayer.replay(DeadLetterFilter())
            for app in apps {
                #expect(try await ingest.generation(of: app) == generations[app, default: 0], "seed \(seed), \(app)")
            }
            #expect(
                try await ingest.store.integer("SELECT generation FROM kind WHERE name = 'Later'") == laterGenerations)
            let requested = try await ingest.store.integer("SELECT sum(requested) - count(*) FROM timeline")
            #expect(requested == pushes.values.reduce(0, +), "seed \(seed)")
            #expect(try await ingest.letters("replayed_at IS NULL AND error NOT LIKE '%Never%'") == 0)
            #expect(try await ingest.store.integer("SELECT count(*) FROM diversion") == 0)
        }
    }
}
