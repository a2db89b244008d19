// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import PostgresClient
import TestSupport
import Testing
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// A message that is not a valid event.
struct BadMessage: Sendable, CustomTestStringConvertible {
    let name: String
    let code: String
    /// Pointer and part of the error's text.
    let says: String
    var type: String? = "freshet.push.received.v1"
    var value: [UInt8]?

    var testDescription: String { name }

    init(_ name: String, _ code: String, says: String, type: String? = "freshet.push.received.v1", _ value: String) {
        self.init(name, code, says: says, type: type, bytes: Array(value.utf8))
    }

    init(_ name: String, _ code: String, says: String, type: String? = "freshet.push.received.v1", bytes: [UInt8]) {
        self.name = name
        self.code = code
        self.says = says
        self.type = type
        value = bytes
    }

    static let all: [BadMessage] = [
        BadMessage("malformed JSON", "malformedJSON", says: "byte", #"{"app":"com.example.bank","#),
        BadMessage(
            "unknown type", "unknownType", says: "freshet.nothing.v1", type: "freshet.nothing.v1",
            #"{"app":"com.example.bank"}"#),
        BadMessage(
            "a type of another topic", "wrongTopic", says: "freshet.widget.viewed.v1", type: "freshet.widget.viewed.v1",
            #"{"app":"com.example.bank","widget":"w1"}"#),
        BadMessage("no type", "missingAttribute", says: "type", type: nil, #"{"app":"com.example.bank"}"#),
        BadMessage(
            "missing field", "missingField", says: "/audience", #"{"app":"com.example.bank","kinds":"all"}"#),
        BadMessage(
            "wrong-typed field", "wrongType", says: "/audience/user",
            #"{"app":"com.example.bank","audience":{"user":42},"kinds":"all"}"#),
        BadMessage(
            "unknown app", "unknownApp", says: "com.example.nobody",
            #"{"app":"com.example.nobody","audience":{"user":"u1"},"kinds":"all"}"#),
        BadMessage(
            "unknown kind", "unknownKind", says: "Nothing",
            #"{"app":"com.example.bank","audience":{"user":"u1"},"kinds":["Nothing"]}"#),
        BadMessage(
            "oversized", "tooLarge", says: "1048576",
            bytes: Array(repeating: UInt8(ascii: " "), count: 1_048_577)),
        BadMessage(
            "invalid UTF-8", "invalidUTF8", says: "UTF-8",
            bytes: Array(#"{"app":"com.example.bank","audience":{"user":""#.utf8) + [0xFF, 0xFE]
                + Array(#""},"kinds":"all"}"#.utf8)),
    ]
}

@Suite("Bad input becomes dead letters and blocks nothing", .timeLimit(.patience))
struct BadInputTests {
    private func message(_ bad: BadMessage, _ ingest: IngestHarness) -> KafkaMessage {
        var headers = [
            KafkaHeader(name: "ce_specversion", value: "1.0"), KafkaHeader(name: "ce_id", value: bad.name),
            KafkaHeader(name: "ce_source", value: "/tests"),
            KafkaHeader(name: "content-type", value: "application/json"),
            KafkaHeader(name: "x-null", value: nil as [UInt8]?),
            // Only Freshet may set this header.
            KafkaHeader(name: "freshet-app", value: "com.example.forged"),
        ]
        if let type = bad.type { headers.append(KafkaHeader(name: "ce_type", value: type)) }
        return KafkaMessage(
            topic: ingest.configuration.topics.pushes, partition: 0, key: Array("u1".utf8), value: bad.value,
            headers: headers)
    }

    @Test(
        "Bad messages are kept whole with their errors, reach the dead-letter topic and do not block the next event")
    func deadLetters() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let id = try await ingest.store.place([.test("w1", user: "u1")])[0]
            try await ingest.store.settle()
            let large = try KafkaProducer(
                configuration: KafkaConfiguration(
                    bootstrapServers: ingest.kafka.configuration.bootstrapServers,
                    properties: ingest.kafka.configuration.properties.merging(["message.max.bytes": "4000000"]) { $1 }),
                deliveryTimeout: Patience.delivery, logger: IngestHarness.quiet)
            for bad in BadMessage.all {
                _ = try await large.send(message(bad, ingest))
                try await ingest.publish([ingest.push("u1")])
            }
            await large.shutdown()
            let service = ingest.service()
            try await ingest.running([service]) { try await ingest.waitUntilApplied(BadMessage.all.count * 2) }
            #expect(
                try await ingest.store.integer("SELECT requested FROM timeline WHERE identity = '\(id)'")
                    == 1 + BadMessage.all.count)
            #expect(service.metrics.ingestDeadLetters.total() == BadMessage.all.count)

            let rows = try await ingest.store.pool.withTransaction { connection in
                try await connection.query(.deadLettersToForward(limit: 100, lease: .zero))
            }
            #expect(rows.count == BadMessage.all.count)
            for (bad, row) in zip(BadMessage.all, rows) {
                expectKept(row.letter, bad, message(bad, ingest))
            }
            try await forwarded(rows.map(\.letter), ingest)
        }
    }

    private func expectKept(_ letter: DeadLetter, _ bad: BadMessage, _ message: KafkaMessage) {
        #expect(letter.code == bad.code, "\(bad.name): \(letter.error)")
        #expect(letter.error.contains(bad.says), "\(bad.name): \(letter.error)")
        #expect(letter.payload == bad.value)
        #expect(letter.key == Array("u1".utf8))
        #expect(letter.headers.map(\.name) == message.headers.map(\.name))
        #expect(letter.headers.contains { $0.name == "x-null" && $0.value == nil })
    }

    /// Forwards the letters, then reads the topic as another consumer would.
    private func forwarded(_ letters: [DeadLetter], _ ingest: IngestHarness) async throws {
        let signal = Signal()
        let forwarder = DeadLetterForwarder(
            pool: ingest.store.pool, producer: ingest.producer, topic: ingest.configuration.deadLetterTopic,
            signal: signal, logger: IngestHarness.quiet)
        try await ingest.running([forwarder]) {
            try await eventually("all dead letters are forwarded") {
                try await ingest.store.integer("SELECT count(*) FROM dead_letter WHERE forwarded_at IS NULL") == 0
            }
        }
        let consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(
                kafka: ingest.kafka.configuration, group: "reader"),
            logger: IngestHarness.quiet)
        try await consumer.assignAll(of: [ingest.configuration.deadLetterTopic])
        var offsets: Set<String> = []
        reading: for try await event in consumer.events {
            switch event {
            case .batch(let batch):
                for index in 0..<batch.count {
                    let headers = batch.headerValues(index)
                    func text(_ name: String) -> String {
                        headers.last { $0.name == name }?.value.map { String(decoding: $0, as: UTF8.self) } ?? ""
                    }
                    let letter = try #require(letters.first { "\($0.offset)" == text("freshet-offset") })
                    let error = text("freshet-error")
                    #expect(error == "\(letter.code): \(letter.error)")
                    #expect(error.split(separator: letter.code).count == 1, "the code appears once: \(error)")
                    #expect(text("freshet-cause") == letter.cause.rawValue)
                    #expect(text("freshet-pointer") == letter.pointer ?? "")
                    #expect(text("freshet-app") == letter.app ?? "")
                    #expect(headers.count { $0.name == "freshet-app" } == (letter.app == nil ? 0 : 1))
                    #expect(text("freshet-topic") == ingest.configuration.topics.pushes)
                    #expect(text("freshet-partition") == "0")
                    // A letter beyond the producer's limit is sent without its payload, but with a header.
                    let isTruncated = letter.code == "tooLarge"
                    #expect(text("freshet-truncated") == (isTruncated ? "1048577 bytes" : ""))
                    #expect(
                        batch.value(index).map { Array(batch.bytes[$0]) } == (isTruncated ? nil : letter.payload))
                    offsets.insert(text("freshet-offset"))
                }
                if offsets.count == letters.count { break reading }
            case .offsetOutOfRange, .otherLog, .error, .interrupted, .advanced, .unreadable: continue
            }
        }
        await consumer.shutdown()
        #expect(offsets.count == letters.count)
    }

    @Test(
        "Halving the batch isolates an event whose data the database refuses; all others are applied",
        arguments: [false, true])
    func poison(dividing: Bool) async throws {
        try await IngestHarness.lend(partitions: dividing ? 4 : 1, dividing: dividing) { ingest in
            try await ingest.store.sql("ALTER TABLE widget ADD CONSTRAINT no_poison CHECK (id <> 'poison')")
            var events: [FreshetEvent] = (0..<50).map { .placed(.test("w\($0)", user: "u\($0)")) }
            events.insert(.placed(.test("poison", user: "u7")), at: 23)
            try await ingest.publish(events, at: Timestamp(microseconds: 1_700_000_000_000_000))
            let service = ingest.service()
            try await ingest.running([service]) { try await ingest.waitUntilApplied(51) }
            #expect(try await ingest.store.integer("SELECT count(*) FROM widget") == 50)
            #expect(
                try await ingest.store.integer("SELECT count(*) FROM dead_letter WHERE code = 'databaseRefused'") == 1)
            #expect(service.metrics.ingestEvents.total(["outcome": "applied"]) == 50)
        }
    }

    @Test("Events of an app that is registered while ingest runs are accepted at once")
    func registeredLater() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish([ingest.push("u1")])
                try await ingest.waitUntilApplied(1)
                var apps = TestKinds.apps()
                apps[0].kinds.append(
                    KindDefinition(
                        name: "Later", providerURL: "http://127.0.0.1:1", placeholder: .object(JSONObject())))
                _ = try await ingest.store.store.apply(apps, secrets: [:]) { Array(repeating: 1, count: 32) }
                try await ingest.publish([ingest.push("u1", kinds: ["Later"])])
                try await ingest.waitUntilApplied(2)
            }
            #expect(service.metrics.ingestDeadLetters.total() == 0)
        }
    }
}
