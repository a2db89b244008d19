import KafkaClient
import Logging
import TestSupport
import Testing

/// What of a group's life the embedded cluster can show, and the rest on a real broker.
@Suite("Membership", .tags(.integration), .serialized, .timeLimit(.patience))
struct MembershipTests {
    @Test("a static member does not leave when it is shut down; another one does", arguments: [true, false])
    func leaving(isStatic: Bool) async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let topic = try await kafka.topic("members", partitions: 2)
            let log = RecordedLog()
            let consumer = try kafka.consumer(topic, properties: ["debug": "cgrp"], logger: log.logger) {
                if isStatic { $0.groupInstanceID = "one" }
            }
            let assignment = try await consumer.assignment()
            #expect(assignment.partitions.count == 2)
            #expect(consumer.isMember)
            await consumer.shutdown()
            #expect(consumer.silence == nil)
            let leaves = log.lines.filter { $0.metadata["facility"] == "LEAVE" && $0.text.contains("leave (in state") }
            #expect(leaves.isEmpty == isStatic, "\(leaves.map(\.text))")
        }
    }

    @Test("a name that is not allowed is an error of the configuration")
    func emptyName() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            #expect(throws: KafkaError.self) { try kafka.consumer("topic") { $0.groupInstanceID = "" } }
        }
    }

    @Test(
        "a static member that comes back within the session timeout keeps its partitions, and nobody else is asked",
        .tags(.realBroker), .enabled(if: hasRealBroker))
    func restart() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("static", partitions: 4)
            let group = topic
            func member(_ name: String) throws -> KafkaConsumer {
                try kafka.consumer(topic, group: group) { $0.groupInstanceID = name }
            }
            let first = try member("one")
            var owned = try await first.assignment().partitions
            #expect(owned.count == 4)
            await first.shutdown()
            let again = try member("one")
            owned = try await again.assignment().partitions
            #expect(owned.count == 4)
            // A third with the same name fences it: a fatal error, which ends the events.
            let other = try member("one")
            _ = try await other.assignment()
            let error = await #expect(throws: KafkaError.self) { _ = try await again.rest() }
            #expect(error?.code == .fencedInstanceID)
            await again.shutdown()
            await other.shutdown()
        }
    }

    @Test(
        "partitions that are added while it runs are assigned and read from their beginning", .tags(.realBroker),
        .enabled(if: hasRealBroker))
    func growth() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("grows", partitions: 1)
            let consumer = try kafka.consumer(topic, properties: ["topic.metadata.refresh.interval.ms": "1000"])
            #expect(try await consumer.assignment().partitions.count == 1)
            try await KafkaAdmin(configuration: kafka.configuration, logger: quiet)
                .createPartitions(topic, count: 3)
            let producer = try kafka.producer(properties: ["topic.metadata.refresh.interval.ms": "1000"])
            var places: Set<TopicPartition> = []
            for try await event in consumer.events {
                guard case .assigned(let assignment) = event else { continue }
                places.formUnion(assignment.partitions)
                assignment.start(at: [:])
                if places.count >= 2 { break }
            }
            _ = try await producer.send(KafkaMessage(topic, "new", partition: 2))
            #expect(try await consumer.read(1).map(\.value) == ["new"])
            await producer.shutdown()
            await consumer.shutdown()
        }
    }

    @Test("a topic that appears while the consumer runs is assigned, without the others being lost")
    func appearingTopic() async throws {
        try await withKafka(embeddedOnly: true) { kafka in
            let (one, two) = (try await kafka.topic("there"), try await kafka.topic("late", partitions: 3))
            try kafka.embedded?.setTopicError(two, .unknownTopicOrPartition)
            let consumer = try kafka.consumer(one, two)
            var places: Set<TopicPartition> = []
            var missing: KafkaError?
            for try await event in consumer.events {
                switch event {
                case .assigned(let assignment):
                    places.formUnion(assignment.partitions)
                    assignment.start(at: [:])
                case .revoked(let revocation):
                    places.subtract(revocation.partitions)
                    revocation.acknowledge()
                case .error(let error) where error.code == .unknownTopicOrPartition:
                    missing = error
                default:
                    continue
                }
                if missing != nil, places.count == 1 { try kafka.embedded?.setTopicError(two, nil) }
                if places.count == 4 { break }
            }
            #expect(missing?.context.topic == two)
            #expect(places.filter { $0.topic == two }.count == 3)
            await consumer.shutdown()
        }
    }

    @Test("the bounds of a log are what it holds; a topic that may not be seen is an error")
    func bounds() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("bounds", partitions: 2)
            let producer = try kafka.producer()
            for index in 0..<5 { _ = try await producer.send(KafkaMessage(topic, "\(index)", partition: 1)) }
            await producer.shutdown()
            let admin = KafkaAdmin(configuration: kafka.configuration, logger: quiet)
            let empty = try await admin.bounds(of: TopicPartition(topic: topic, partition: 0))
            #expect(empty == KafkaLogBounds(earliest: 0, end: 0))
            let full = try await admin.bounds(of: TopicPartition(topic: topic, partition: 1))
            #expect(full == KafkaLogBounds(earliest: 0, end: 5))
            await #expect(throws: KafkaError.self) {
                _ = try await admin.bounds(of: TopicPartition(topic: topic, partition: 9))
            }
        }
    }
}
