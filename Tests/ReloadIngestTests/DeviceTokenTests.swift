// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import TestSupport
import Testing
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Device tokens in dead letters", .timeLimit(.patience))
struct DeviceTokenTests {
    private static let token = "00fc13adff785122b4ad28809a342098"
    private static let type = "freshet.device.registered.v1"

    private static func data(app: String = TestKinds.app, channel: String) -> String {
        #"{"app":"\#(app)","user":"u1","device":"d1","channel":\#(channel)}"#
    }

    private static let valid = #"{"apns":{"token":"\#(token)","topic":"a.push-type.widgets"}}"#

    private static func message(
        _ value: String, contentType: String = "application/json", topic: String
    ) -> KafkaMessage {
        var headers = [KafkaHeader(name: "content-type", value: contentType)]
        if contentType == "application/json" {
            headers += [("ce_specversion", "1.0"), ("ce_id", "e1"), ("ce_source", "/tests"), ("ce_type", type)].map {
                KafkaHeader(name: $0.0, value: $0.1)
            }
        }
        return KafkaMessage(
            topic: topic, partition: 0, key: Array("u1".utf8), value: Array(value.utf8), headers: headers)
    }

    @Test("Neither the table nor the topic of dead letters contains the token of a rejected registration")
    func rejected() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let topics = ingest.configuration.topics
            let misplaced = #"{"apns":{"topic":"a.push-type.widgets","tokens":["\#(Self.token)"]}}"#
            let structured = """
                {"specversion":"1.0","id":"e1","source":"/tests","type":"\(Self.type)",\
                "data":\(Self.data(app: "com.example.nobody", channel: Self.valid))}
                """
            let messages = [
                Self.message(Self.data(app: "com.example.nobody", channel: Self.valid), topic: topics.widgets),
                Self.message(Self.data(channel: Self.valid), topic: topics.pushes),
                Self.message(Self.data(channel: misplaced), topic: topics.widgets),
                Self.message(Self.data(channel: Self.valid) + "}", topic: topics.widgets),
                Self.message(structured, contentType: "application/cloudevents+json", topic: topics.widgets),
            ]
            for message in messages { _ = try await ingest.producer.send([message])[0].get() }
            try await ingest.running([ingest.service()]) { try await ingest.waitUntilApplied(messages.count) }

            let rows = try await ingest.store.pool.withTransaction { connection in
                try await connection.query(.deadLettersToForward(limit: 100, lease: .zero))
            }
            #expect(rows.count == messages.count)
            #expect(rows.count { $0.letter.payload == nil } == 1)
            for row in rows {
                let payload = row.letter.payload.map { String(decoding: $0, as: UTF8.self) } ?? ""
                #expect(!payload.contains(Self.token) && !row.letter.error.contains(Self.token))
                #expect(
                    payload.isEmpty || payload.contains(#""[redacted]""#) && payload.contains("a.push-type.widgets"))
            }
            let forwarder = DeadLetterForwarder(
                pool: ingest.store.pool, producer: ingest.producer, topic: ingest.configuration.deadLetterTopic,
                signal: Signal(), logger: IngestHarness.quiet)
            _ = try await forwarder.forward()
            #expect(try await forwarded(messages.count, ingest).allSatisfy { !$0.contains(Self.token) })
        }
    }

    @Test(
        "A payload that is no JSON, or has no type or another one, leaves no token",
        arguments: [
            (nil, #"{"channel":{"apns":{"token":"\#(token)""#, false), (type, "00 \(token) 00", false),
            (nil, #"{"app":"a","channel":{"apns":{"token":"\#(token)"}}}"#, true),
            ("freshet.widget.placed.v1", #"{"app":"a","channel":{"apns":{"token":"\#(token)"}}}"#, true),
            ("freshet.device.registered.v2", "user=u1&token=\(token)", false),
            (nil, #"{"data_base64":"\#(token)"}"#, true), (type, #"["\#(token)"]"#, false),
        ] as [(String?, String, Bool)])
    func unreadable(type: String?, payload: String, isKept: Bool) {
        let kept = Self.kept(payload, type: type)
        #expect((kept != nil) == isKept)
        #expect(kept?.contains(Self.token) != true)
    }

    @Test("Payloads of other events stay as they are", arguments: [#"{ "app": "a",  "kinds": ["x"] }"#, "garbage"])
    func others(payload: String) {
        #expect(Self.kept(payload, type: nil) == payload)
    }

    /// The payload that a dead letter keeps.
    private static func kept(_ payload: String, type: String?) -> String? {
        let (value, name) = (Array(payload.utf8), Array("ce_type".utf8))
        let bytes = value + name + Array((type ?? "").utf8)
        var attributes = EventAttributes()
        let end = value.count + name.count
        if type != nil { attributes.note(name: value.count..<end, value: end..<bytes.count, in: bytes) }
        return attributes.redactedValue(of: bytes, 0..<value.count).map {
            String(decoding: $0, as: UTF8.self)
        }
    }

    /// Content of the dead-letter topic's batches, as text.
    private func forwarded(_ count: Int, _ ingest: IngestHarness) async throws -> [String] {
        let consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(kafka: ingest.kafka.configuration, group: "reader"),
            logger: IngestHarness.quiet)
        try await consumer.assignAll(of: [ingest.configuration.deadLetterTopic])
        var (texts, found): ([String], Int) = ([], 0)
        for try await event in consumer.events {
            guard case .batch(let batch) = event else { continue }
            texts.append(String(decoding: batch.bytes, as: UTF8.self))
            found += batch.count
            if found == count { break }
        }
        await consumer.shutdown()
        return texts
    }
}
