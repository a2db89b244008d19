// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Requests are folded by the bytes of their messages")
struct CompactReloadTests {
    /// A batch of requests with these members behind the app.
    private static func batch(_ members: [String], app: (Int) -> String = { _ in SampleKind.appName }) -> KafkaBatch {
        KafkaBatch(
            members.enumerated().map { index, members in
                (Int64(index), message(#"{"app":"\#(app(index))",\#(members)}"#))
            })
    }

    private static func message(_ value: String, _ headers: [(String, String)] = []) -> KafkaMessage {
        let attributes = [
            ("ce_specversion", "1.0"), ("ce_id", "1"), ("ce_source", "/t"),
            ("ce_type", EventType.pushReceived.rawValue), ("content-type", "application/json"),
        ]
        return KafkaMessage(
            topic: IngestTopics().pushes, key: nil, value: Array(value.utf8),
            headers: (attributes + headers).map { KafkaHeader(name: $0.0, value: $0.1) }, timestampMilliseconds: 1)
    }

    private static func isCompact(_ content: RecordContent) -> Bool {
        if case .reload = content { true } else { false }
    }

    /// Compares the fold of a batch with that of its events, which hold texts.
    private func compare(_ batch: KafkaBatch) -> (prepared: PreparedBatch, fold: BatchFold) {
        let prepared = PreparedBatch(batch, decoder: RecordDecoder(IngestTopics()))
        let fold = prepared.fold(prepared.items, .sample).fold
        var events = BatchFold(directory: .sample)
        for item in prepared.items {
            if let event = prepared.event(item) { events.add(event) }
        }
        #expect(fold.marks == events.marks)
        #expect(fold.bumps == events.bumps && fold.sweeps == events.sweeps)
        #expect(fold.rejected == events.rejected)
        #expect(Set(fold.unknownNames) == Set(events.unknownNames))
        #expect(fold.events == events.events)
        #expect((fold.eventCount, fold.accepted) == (events.eventCount, events.accepted))
        return (prepared, fold)
    }

    @Test("Events are counted by app, also if apps alternate")
    func counts() {
        let directory = KindDirectory(
            apps: (1...3).map { RegisteredApp(id: $0, name: "app\($0)", isDeveloperMode: false, signingSecret: []) },
            kinds: [])
        let batch = Self.batch(
            Array(repeating: #""audience":{"user":"u1"},"kinds":"all""#, count: 10), app: { "app\($0 % 3 + 1)" })
        let prepared = PreparedBatch(batch, decoder: RecordDecoder(IngestTopics()))
        #expect(prepared.fold(prepared.items, directory).fold.events == [1: 4, 2: 3, 3: 3])
    }

    @Test("Requests of all audiences and kinds fold like events with texts")
    func requests() {
        let (prepared, fold) = compare(
            Self.batch([
                #""audience":{"user":"u1"},"kinds":["Purchases"]"#,
                #""audience":{"user":"u1"},"kinds":["DueDate","Purchases"]"#,
                #""audience":{"user":"u1"},"kinds":"all""#,
                #""audience":{"device":"u1"},"kinds":["Purchases"]"#,
                #""audience":{"widget":"u1"},"kinds":["Purchases"]"#,
                #""audience":{"everyone":true},"kinds":["Purchases"]"#,
                #""audience":{"user":"u1"},"kinds":["Purchases"],"matching":{"card":"acme"}"#,
                #""audience":{"user":"u1"},"kinds":["Unknown"]"#,
                #""audience":{"user":"u1"},"kinds":["Retired"]"#,
            ]))
        #expect(prepared.items.filter { Self.isCompact(prepared.content($0)) } == [0, 1, 2, 3, 4, 5, 7, 8])
        #expect(fold.markCount == 6)
        #expect(fold.rejected.map(\.record) == [7, 8])
        #expect(prepared.items.allSatisfy { prepared.type($0) == .pushReceived })
    }

    @Test("Ids are one target if their bytes are the same, whatever their length and spelling in JSON")
    func ids() {
        let long = String(repeating: "0123456789", count: 7)
        let ids = [
            "user-1", #"user\u002d1"#, "caf\u{E9}", #"caf\u00e9"#, "cafe\u{301}", "\(long)a", "\(long)b", "\(long)a",
            "12345678", "123456789", "1234567890123456", "12345678901234567", "123456789012345678901234",
            "1234567890123456789012345",
        ]
        let (_, fold) = compare(Self.batch(ids.map { #""audience":{"user":"\#($0)"},"kinds":["Purchases"]"# }))
        #expect(fold.markCount == ids.count - 3)
        #expect(fold.marks.first { $0.audienceID == "user-1" }?.events == 2)
    }

    @Test("More apps and targets than are expected fold like few")
    func many() {
        let members = (0..<1_000).map { #""audience":{"user":"u\#($0 % 300)"},"kinds":["Kind\#($0 % 20)"]"# }
        let (_, unknown) = compare(Self.batch(members) { "com.example.app\($0 % 20)" })
        #expect(unknown.rejected.count == 1_000)
        #expect(unknown.unknownNames.count == 20)
        let known = members.map { $0.replacing(/Kind\d+/, with: "Purchases") }
        let (prepared, fold) = compare(Self.batch(known))
        #expect(fold.markCount == 300)
        var limited = prepared.fold(prepared.items, .sample, limit: 100)
        #expect((limited.fold.markCount, limited.count) == (100, 100))
        limited = prepared.fold(prepared.items, .sample, [SampleKind.app])
        #expect(limited.fold.diverted.count == 1_000 && limited.fold.markCount == 0)
    }

    @Test("A request with options or a sampled trace is an event; a time that cannot be read is ignored")
    func options() {
        let value = #"{"app":"\#(SampleKind.appName)","audience":{"user":"u1"},"kinds":["Purchases"]}"#
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
        let headers = [
            ("ce_time", "yesterday"), ("traceparent", trace + "00"), ("traceparent", trace + "01"),
            ("freshet-user", "u1"), ("freshet-outcome", "kept"), ("freshet-order", "arrival"),
        ]
        let (prepared, fold) = compare(
            KafkaBatch(headers.enumerated().map { (Int64($0), Self.message(value, [$1])) }))
        #expect(prepared.items.filter { Self.isCompact(prepared.content($0)) } == [0, 1])
        #expect(fold.marks.map(\.events) == [6])
        #expect(fold.traces.map(\.position) == [.at(2)])
        #expect(fold.kept == [4])
        #expect(prepared.repeatable(prepared.items).map { $0.id } == ["1"])
    }

    @Test("A request in structured mode is one as well, wherever its data is")
    func structured() {
        let data = #""data":{"app":"\#(SampleKind.appName)","audience":{"user":"u1"},"kinds":["Purchases"]}"#
        let type = #""type":"freshet.push.received.v1""#
        let attributes = #""specversion":"1.0","id":"1","source":"s","time":"yesterday""#
        let batch = KafkaBatch(
            ["{\(attributes),\(type),\(data)}", "{\(data),\(attributes),\(type)}"].enumerated().map { index, value in
                let message = KafkaMessage(
                    topic: IngestTopics().pushes, key: nil, value: Array(value.utf8),
                    headers: [KafkaHeader(name: "content-type", value: "application/cloudevents+json")])
                return (offset: Int64(index), message: message)
            })
        let (prepared, fold) = compare(batch)
        #expect(prepared.items.allSatisfy { Self.isCompact(prepared.content($0)) })
        #expect(fold.marks.map(\.events) == [2])
    }

    @Test("A request that the database refuses becomes a dead letter of its app")
    func refused() {
        var prepared = PreparedBatch(
            Self.batch([#""audience":{"user":"u1"},"kinds":["Purchases"]"#]), decoder: RecordDecoder(IngestTopics()))
        prepared.reject(0, code: "databaseRefused", message: "x")
        #expect(prepared.fold(prepared.items, .sample).fold.rejected.map(\.app) == [SampleKind.appName])
    }
}
