// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import JSON
import KafkaClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

/// A trace from an event's header through the provider's request to the published timeline.
@Suite(.tags(.process), .timeLimit(.patience))
struct TracingTests {
    private static let app = "com.example.traced"
    private static let sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    private static let unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-00"

    private static func push(_ trace: String?) -> OutgoingEvent {
        OutgoingEvent(
            .reload(ReloadRequest(app: app, audience: .user("u"), kinds: .all, reason: .push)),
            time: Timestamp.now(), traceparent: trace)
    }

    /// All messages of the timelines topic.
    private static func published(_ installation: Installation) async throws -> [(
        headers: [String: String], offset: Int64
    )] {
        let topic = installation.kafka.name("freshet.timelines")
        let admin = KafkaAdmin(
            configuration: installation.kafka.configuration, timeout: Patience.delivery, logger: quietLogger)
        let reader = KafkaReader(configuration: installation.kafka.configuration, logger: quietLogger)
        let partitions = try #require(try await admin.describe(topics: [topic]).first).partitions
        var found: [(headers: [String: String], offset: Int64)] = []
        for partition in partitions {
            let bounds = try await admin.bounds(of: TopicPartition(topic: topic, partition: partition.id))
            for offset in bounds {
                guard
                    let batch = try await reader.message(
                        topic: topic, partition: partition.id, offset: offset, timeout: Patience.delivery)
                else { continue }
                let headers = batch.headerValues(0).map { ($0.name, String(decoding: $0.value ?? [], as: UTF8.self)) }
                found.append((Dictionary(headers, uniquingKeysWith: { $1 }), offset))
            }
        }
        return found
    }

    @Test("The provider's request and the timeline's message carry the trace of the event that caused them")
    func traced() async throws {
        try await withInstallation { installation in
            try await withStubProvider { provider in
                let entries = Tally()
                provider.respond { request in
                    entries.add()
                    // Each answer differs, so that it is published.
                    return .timelines(
                        request.ids.map { .stubTimeline($0, content: ["n": .string("\(entries.count)")]) })
                }
                let manifest = FileManager.default.temporaryDirectory.appendingPathComponent(
                    "\(UUID().uuidString).yaml")
                try """
                app: \(Self.app)
                developerMode: true
                provider: {url: "\(provider.url)"}
                kinds:
                  - {name: K, displayName: K, description: K, minimumSpacing: 0s, snapshots: false, placeholder: {}}
                """.write(to: manifest, atomically: true, encoding: .utf8)
                defer { try? FileManager.default.removeItem(at: manifest) }
                let applied = try await installation.freshet("kinds", "apply", manifest.path)
                #expect(applied.status == 0, "\(applied.err)")
                let (process, _) = try await installation.run("--set", "log.format=json")
                try await installation.publish([
                    OutgoingEvent(
                        .placed(
                            WidgetPlacement(
                                app: Self.app, widget: "w", user: "u", device: "d", kind: "K", family: .systemSmall,
                                environment: WidgetPlacement.test("w").environment)),
                        time: Timestamp.now())
                ])
                try await eventually("the widget is rendered") { provider.requests.count >= 1 }
                try await installation.publish([Self.push(Self.unsampled)])
                try await eventually("the widget is rendered again") { provider.requests.count >= 2 }
                #expect(provider.requests.allSatisfy { $0.headers["traceparent"] == nil })

                // The process notices a moment after the first trace that events have traces.
                try await eventually("a request carries the trace", every: .milliseconds(300)) {
                    try await installation.publish([Self.push(Self.sampled)])
                    return provider.requests.contains { $0.headers["traceparent"] == Self.sampled }
                }
                try await eventually("a message carries the trace", every: .milliseconds(300)) {
                    try await Self.published(installation).contains { $0.headers["traceparent"] == Self.sampled }
                }
                let first = try #require(try await Self.published(installation).first)
                #expect(first.headers["traceparent"] == nil)
                #expect(try await installation.store.integer("SELECT count(*) FROM event_trace") >= 1)

                try await eventually("after an event without a trace a request has none", every: .milliseconds(300)) {
                    try await installation.publish([Self.push(nil)])
                    return provider.requests.last?.headers["traceparent"] == nil
                }

                provider.respond { _ in .status(500) }
                try await installation.publish([Self.push(Self.sampled)])
                try await eventually("the log of the failure names the trace") {
                    process.standardError.split(separator: "\n").contains { line in
                        line.contains("timelines failed")
                            && line.contains(#""trace_id":"4bf92f3577b34da6a3ce929d0e0e4736""#)
                    }
                }
                process.send(signal: SIGTERM)
                _ = try await process.end()
            }
        }
    }
}
