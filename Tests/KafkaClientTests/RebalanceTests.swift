import KafkaClient
import TestSupport
import Testing

/// Members come, go and crash while messages flow: every offset is handled, and its effect applied once.
@Suite(.tags(.integration), .timeLimit(.patience))
struct RebalanceTests {
    @Test("join, leave, crash, with either protocol", arguments: ["cooperative-sticky", "range"])
    func members(strategy: String) async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("rebalance", partitions: 6)
            let store = PositionStore()
            let producer = try kafka.producer()
            let flow = Task { try await Self.send(to: topic, with: producer, store) }

            let first = try Member("first", kafka, topic, strategy, store)
            try await store.wait { $0.owned(by: "first") == 6 && $0.handled > 500 }

            let second = try Member("second", kafka, topic, strategy, store)
            try await store.wait { $0.owned(by: "first") == 3 && $0.owned(by: "second") == 3 }
            try await store.waitForMore()

            // Leaves in order: it hands over what it has handled.
            try await first.leave()
            try await store.wait { $0.owned(by: "second") == 6 }
            try await store.waitForMore()

            let third = try Member("third", kafka, topic, strategy, store)
            try await store.wait { $0.owned(by: "second") == 3 && $0.owned(by: "third") == 3 }

            // Vanishes: its partitions come over when its session has timed out.
            try await second.crash()
            try await store.wait { $0.owned(by: "third") == 6 }
            try await store.waitForMore()

            flow.cancel()
            let sent = try await flow.value
            try await store.wait { $0.handled == sent }
            try await third.leave()
            await producer.shutdown()

            #expect(await store.problems == [])
            let positions = await store.positions
            #expect(positions.values.reduce(0, +) == Int64(sent))
            #expect(await store.values.count == sent)
            for member in [first, second, third] {
                #expect(member.consumer.counters.gaps == 0)
                #expect(member.consumer.counters.unacknowledgedRevocations == 0)
            }
        }
    }

    /// Sends until it is cancelled, held back so that the members can follow; returns how many.
    private static func send(to topic: String, with producer: KafkaProducer, _ store: PositionStore) async throws -> Int
    {
        var sent = 0
        while !Task.isCancelled {
            let count = 120
            let from = sent
            // Not itself cancelled, so that what is counted is stored.
            let sending = Task {
                await producer.send(
                    (from..<from + count).map { KafkaMessage(topic, "\($0)", partition: Int32($0 % 6)) })
            }
            for result in await sending.value { _ = try result.get() }
            sent += count
            let bound = sent - 3000
            try? await store.wait { $0.handled >= bound }
        }
        return sent
    }
}

/// One process of a group, as ingest is: takes an epoch, starts at the stored position, applies batches by
/// compare-and-set.
private struct Member {
    let consumer: KafkaConsumer
    private let work: Task<Void, any Error>

    init(_ name: String, _ kafka: TestCluster, _ topic: String, _ strategy: String, _ store: PositionStore) throws {
        let consumer = try kafka.consumer(
            topic, group: topic,
            properties: ["partition.assignment.strategy": strategy, "session.timeout.ms": "4000"]
        ) {
            $0.maximumBatchMessages = 50
            $0.pauseDelay = .milliseconds(50)
        }
        self.consumer = consumer
        work = Task {
            for try await event in consumer.events {
                switch event {
                case .assigned(let assignment):
                    assignment.start(at: await store.take(assignment.partitions, by: name))
                case .batch(let batch):
                    await store.apply(batch.messages, by: name)
                case .revoked(let revocation):
                    if !revocation.lost { await store.release(revocation.partitions, by: name) }
                    revocation.acknowledge()
                case .offsetOutOfRange(let place, let offset):
                    throw TestFailure("\(name): \(place) has no offset \(offset)")
                case .error:
                    continue
                }
            }
        }
    }

    func leave() async throws {
        await consumer.shutdown()
        try await work.value
    }

    func crash() async throws {
        await consumer.abandon()
        try await work.value
    }
}

/// Stands for the database: positions with their owners, and what has been applied.
private actor PositionStore {
    private(set) var positions: [TopicPartition: Int64] = [:]
    private(set) var values: Set<String> = []
    private(set) var handled = 0
    private(set) var problems: [String] = []
    private var owners: [TopicPartition: String] = [:]
    private var waiters:
        [Int: (condition: (isolated PositionStore) -> Bool, continuation: CheckedContinuation<Void, Never>)] = [:]
    private var lastWaiter = 0

    func owned(by name: String) -> Int { owners.values.count { $0 == name } }

    /// A new owner, as a new epoch is: from here on nobody else can apply anything.
    func take(_ places: [TopicPartition], by name: String) -> [TopicPartition: KafkaOffset] {
        defer { changed() }
        for place in places { owners[place] = name }
        return Dictionary(uniqueKeysWithValues: places.map { ($0, .at(positions[$0] ?? 0)) })
    }

    func release(_ places: [TopicPartition], by name: String) {
        defer { changed() }
        for place in places where owners[place] == name { owners[place] = nil }
    }

    func apply(_ messages: [ReadMessage], by name: String) {
        defer { changed() }
        // Another has taken it over: what this one still has is dropped, as the compare-and-set does.
        for message in messages where owners[message.place] == name {
            let next = positions[message.place] ?? 0
            if message.offset != next { problems.append("\(name): \(message.place) \(message.offset) after \(next)") }
            if !values.insert(message.value ?? "").inserted { problems.append("\(name): \(message) twice") }
            positions[message.place] = message.offset + 1
            handled += 1
        }
    }

    /// Returns when it holds; throws when the task is cancelled.
    func wait(_ condition: @escaping @Sendable (isolated PositionStore) -> Bool) async throws {
        guard !condition(self) else { return }
        lastWaiter += 1
        let waiter = lastWaiter
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if Task.isCancelled {
                    continuation.resume()
                } else {
                    waiters[waiter] = (condition, continuation)
                }
            }
        } onCancel: {
            Task { await self.giveUp(waiter) }
        }
        try Task.checkCancellation()
    }

    /// Returns when 500 more are handled.
    func waitForMore() async throws {
        let mark = handled + 500
        try await wait { $0.handled >= mark }
    }

    private func giveUp(_ waiter: Int) {
        waiters.removeValue(forKey: waiter)?.continuation.resume()
    }

    private func changed() {
        for (waiter, entry) in waiters where entry.condition(self) {
            waiters[waiter] = nil
            entry.continuation.resume()
        }
    }
}
