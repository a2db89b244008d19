// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Apps allowed on a topic")
struct AllowedAppsTests {
    private static var topics: IngestTopics {
        var topics = IngestTopics()
        topics.more = ["bank.pushes": .pushes]
        topics.allowedApps = ["bank.pushes": [SampleKind.appName], topics.pushes: ["com.example.none"]]
        return topics
    }

    private func message(
        _ app: String, on topic: String, kinds: String = #"["Purchases"]"#, at offset: Int64 = 0
    ) -> (offset: Int64, message: KafkaMessage) {
        let value = #"{"app":"\#(app)","audience":{"user":"u1"},"kinds":\#(kinds)}"#
        let message = KafkaMessage(
            topic: topic, key: Array("u1".utf8), value: Array(value.utf8),
            headers: [
                KafkaHeader(name: "ce_specversion", value: "1.0"), KafkaHeader(name: "ce_id", value: "1"),
                KafkaHeader(name: "ce_source", value: "/t"),
                KafkaHeader(name: "ce_type", value: EventType.pushReceived.rawValue),
            ], timestampMilliseconds: 1)
        return (offset, message)
    }

    @Test("Events of foreign apps become dead letters and count towards no limit")
    func allowed() {
        let batch = KafkaBatch([
            message(SampleKind.appName, on: "bank.pushes"),
            message("com.example.other", on: "bank.pushes"),
            message(SampleKind.appName, on: "freshet.pushes"),
        ])
        let prepared = PreparedBatch(batch, decoder: RecordDecoder(Self.topics))
        let fold = prepared.fold(prepared.items, .sample).fold
        #expect(fold.accepted == 1)
        #expect(fold.rejected.map(\.code) == ["notAllowed", "notAllowed"])
        #expect(fold.rejected.map(\.app) == ["com.example.other", SampleKind.appName])
        #expect(fold.rejected.allSatisfy { $0.pointer == "/app" && !DeadLetterCause(code: $0.code).isFault })
        #expect(DeadLetterCause(code: "notAllowed") == .notAllowed)
    }

    @Test("Malformed events do not count towards another app's limit either")
    func broken() {
        let batch = KafkaBatch([
            message("com.example.other", on: "bank.pushes", kinds: "7"),
            message(SampleKind.appName, on: "bank.pushes", kinds: "7"),
        ])
        let prepared = PreparedBatch(batch, decoder: RecordDecoder(Self.topics))
        let rejected = prepared.fold(prepared.items, .sample).fold.rejected
        #expect(rejected.map(\.app) == ["com.example.other", SampleKind.appName])
        #expect(rejected.map { DeadLetterCause(code: $0.code).isFault } == [false, true])
        #expect(rejected.first?.code == "notAllowed")
    }

    @Test("A topic accepts only its own type of events")
    func sorts() {
        var topics = Self.topics
        topics.more = ["bank.pushes": .widgets]
        let batch = KafkaBatch([message(SampleKind.appName, on: "bank.pushes")])
        let prepared = PreparedBatch(batch, decoder: RecordDecoder(topics))
        #expect(prepared.fold(prepared.items, .sample).fold.rejected.map(\.code) == ["wrongTopic"])
    }

    @Test("Events of a full app are dropped on shared topics and halt the app's own topic")
    func full() {
        let batch = KafkaBatch([
            message(SampleKind.appName, on: "bank.pushes"), message(SampleKind.appName, on: "bank.pushes", kinds: "7"),
            message(SampleKind.appName, on: "freshet.app-changes"),
            message(SampleKind.appName, on: "freshet.app-changes", kinds: "7"),
        ])
        let prepared = PreparedBatch(batch, decoder: RecordDecoder(Self.topics))
        let fold = prepared.fold(prepared.items, .sample, [SampleKind.app], full: [SampleKind.app]).fold
        #expect(fold.diverted.map(\.record) == [0] && fold.rejected.map(\.record) == [1])
        #expect(fold.dropped.map(\.record) == [2, 3])
    }
}
