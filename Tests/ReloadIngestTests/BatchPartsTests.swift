import KafkaClient
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("A backlog is applied in several transactions at a time", .timeLimit(.minutes(5)))
struct BatchPartsTests {
    private let topics = IngestConfiguration.Topics()

    private func message(_ event: FreshetEvent, partition: Int, offset: Int) -> KafkaBatch.Placed {
        let encoded = EventEncoder.encode(event, id: "\(offset)", source: "s", time: Timestamp(microseconds: 0))
        let topic =
            switch event.type.topic {
            case .pushes: topics.pushes
            case .appChanges: topics.appChanges
            case .widgets: topics.widgets
            }
        return KafkaBatch.Placed(
            partition: Int32(partition), offset: Int64(offset),
            message: KafkaMessage(
                topic: topic, key: nil, value: encoded.value,
                headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) }, timestampMilliseconds: 1))
    }

    /// A batch with so many requests of each partition, one of each in turn.
    private func batch(_ counts: [Int], and more: [FreshetEvent] = []) -> PreparedBatch {
        var messages: [KafkaBatch.Placed] = []
        for offset in 0..<(counts.max() ?? 0) {
            for (partition, count) in counts.enumerated() where offset < count {
                let push = ReloadRequest(
                    app: SampleKind.appName, audience: .user("u\(offset)"), kinds: .all, reason: .push)
                messages.append(message(.push(push), partition: partition, offset: offset))
            }
        }
        for (index, event) in more.enumerated() { messages.append(message(event, partition: 0, offset: 1_000 + index)) }
        return PreparedBatch(KafkaBatch(messages), topics: topics, decoder: EventDecoder())
    }

    @Test("Parts are of whole partitions, in order, about as large as each other, and together all of the batch")
    func parts() {
        let counts = [100, 10, 60, 30, 50]
        for limit in 2...4 {
            let batch = batch(counts)
            let parts = batch.parts(limit: limit, least: 1)
            #expect(parts.count == limit)
            #expect(parts.flatMap(\.items).sorted() == batch.items)
            #expect(Set(parts.flatMap(\.places)) == Set(batch.places))
            #expect(parts.reduce(0) { $0 + $1.places.count } == batch.places.count)
            for part in parts {
                #expect(part.items == part.items.sorted())
                #expect(Set(part.items.map { batch.batch.topicPartition(Int($0)) }) == Set(part.places))
            }
            let sizes = parts.map(\.items.count)
            // No part can be smaller than the largest partition makes the others.
            #expect((sizes.max() ?? 0) <= max(100, 250 / limit + 50), "\(sizes)")
        }
    }

    @Test(
        "There are none where parts would be small, where it is one partition, and where it is not only requests",
        arguments: [
            (counts: [40, 40], limit: 2, least: 41), (counts: [500], limit: 4, least: 1),
            (counts: [40, 40], limit: 1, least: 1), (counts: [], limit: 2, least: 0),
        ])
    func whole(counts: [Int], limit: Int, least: Int) {
        let batch = batch(counts)
        #expect(batch.parts(limit: limit, least: least).isEmpty)
    }

    @Test("What people do with their widgets stays in one transaction with all that came with it")
    func lifecycle() {
        #expect(batch([40, 40]).parts(limit: 2, least: 1).count == 2)
        let mixed = batch([40, 40], and: [.placed(.test("w1", user: "u1"))])
        #expect(mixed.parts(limit: 2, least: 1).isEmpty)
    }

    @Test("Positions that are split off come back as they are then")
    func positions() {
        let places = (0..<3).map { TopicPartition(topic: "t", partition: Int32($0)) }
        var positions = PartitionPositions()
        positions.take(
            places.map { TakePartitions.Row(topic: $0.topic, partition: $0.partition, epoch: 7, nextOffset: 10) })
        var part = positions.split(off: places[..<2])
        #expect(Set(positions.positions.keys) == [places[2]] && Set(part.positions.keys) == Set(places[..<2]))
        part.applied(part.advances(to: [places[0]: 15]))
        // Another process has taken this one meanwhile.
        part.drop([places[1]])
        positions.merge(part)
        #expect(positions.positions.mapValues(\.next) == [places[0]: 15, places[2]: 10])
    }

    @Test("Each event has its effect once, whatever breaks while several transactions apply them")
    func exactlyOnce() async throws {
        try await IngestHarness.lend(partitions: 6, maximumBatch: 1_000) { ingest in
            let people = 3_000
            _ = try await ingest.store.place((0..<people).map { .test("w\($0)", user: "u\($0)") })
            try await ingest.store.settle()
            // Few of a batch are for the same person, so that batches are worth dividing.
            let events = 4 * people
            try await ingest.publish((0..<events).map { ingest.push("u\($0 % people)") })
            let consumers = Mutex<[KafkaConsumer]>([])
            let service = ingest.service { consumer in
                consumers.withLock { $0.append(consumer) }
            } configure: { configuration in
                configuration.connections = 3
                configuration.leastPart = 20
            }
            try await ingest.running([service]) {
                try await eventually("something is applied") { try await ingest.applied() > 0 }
                consumers.withLock { $0.last }?.raiseFatalError()
                try await ingest.whateverIsCut {
                    try await ingest.store.sql(
                        """
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND pid <> pg_backend_pid()
                        """)
                }
                try await ingest.waitUntilApplied(events)
            }
            let counted = try await ingest.whateverIsCut {
                try await ingest.store.integer("SELECT sum(requested) - count(*) FROM timeline_state")
            }
            #expect(counted == events)
            #expect(service.statistics.snapshot.dividedBatches > 3)
        }
    }

    @Test(
        "What several sorts of audience mark is locked in order of ids, so transactions beside each other cannot deadlock"
    )
    func oneOrder() async throws {
        try await withStore { store in
            let ids = try await store.place((0..<2).map { .test("w\($0)", user: "u\($0)", device: "d\($0)") })
            try await store.settle()
            // The user's is the higher one, whose statement came first when each sort had its own.
            let (low, high) = ids[0] < ids[1] ? (0, 1) : (1, 0)
            var fold = BatchFold(directory: try await store.directory())
            for (index, audience) in [Audience.user("u\(high)"), .device("d\(low)")].enumerated() {
                let push = ReloadRequest(app: TestKinds.app, audience: audience, kinds: .all, reason: .push)
                fold.add(BatchEvent(record: index, position: .at(index), time: nil, event: .push(push)))
            }
            let applier = BatchApplier(pool: store.pool, audienceLimit: 1_000)
            let applying = try await store.pool.withTransaction { [fold] connection in
                _ = try await connection.query(LockTimelines([ids[high]]))
                let applying = Task {
                    try await applier.apply(fold, advancing: []) { rejected in
                        DeadLetter(
                            topic: "test", partition: 0, offset: Int64(rejected.record), app: rejected.app,
                            code: rejected.code, error: rejected.message, key: nil, headers: [], payload: nil)
                    }
                }
                try await store.waitUntilBlocked()
                let free = try await store.integer(
                    "SELECT count(*) FROM (SELECT 1 FROM timeline_state FOR UPDATE SKIP LOCKED) s")
                #expect(free == 0, "it has the lower one, and waits for the higher one")
                return applying
            }
            #expect(try await applying.value.marked == 2)
        }
    }
}
