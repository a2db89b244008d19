// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

@testable import KafkaClient
@testable import ReloadWorkers
@testable import WidgetStore

/// Steps of the workers that do not wait: a provider's answer is read, and messages go into librdkafka.
struct WorkerCases {
    private static let count = 100
    private static let inSmallBatch = 4
    private static let app = "com.example.bank"

    private let ids: [TimelineID] = (0..<count).map { TimelineID(high: 0x1234_5678_9abc_def0, low: UInt64($0)) }

    static func kind(_ name: String, id: Int32, app: String) -> RegisteredKind {
        RegisteredKind(
            id: id, appID: 1, app: app, isDeveloperMode: false,
            definition: KindDefinition(name: name, providerURL: "https://bank.example", maxBatch: 100, placeholder: [:])
        )
    }

    /// Five entries each, as a provider of a bank would give them: 650 bytes a timeline.
    private static func answer(to ids: [TimelineID]) -> [UInt8] {
        let timelines = ids.enumerated().map { index, id in
            let entries = (0..<5).map { entry in
                """
                {"date": "2026-01-0\(entry + 1)T09:00:00Z", "content": {"title": "Purchase \(index)", \
                "amount": \(index).\(entry)5, "currency": "GBP", "merchant": "Shop \(entry)", "pending": false}}
                """
            }
            return
                #"{"id": "\#(id)", "policy": {"after": "2026-01-06T00:00:00Z"}, "entries": [\#(entries.joined(separator: ", "))]}"#
        }
        return Array(#"{"timelines": [\#(timelines.joined(separator: ", "))]}"#.utf8)
    }

    private var contents: [[UInt8]] {
        let requested = ids.map { RequestedTimeline($0) }
        let response = try? ProviderResponse.parse(Self.answer(to: ids), requested: requested)
        return (response?.outcomes ?? []).compactMap { outcome in
            if case .success(let parsed) = outcome { parsed.content } else { nil }
        }
    }

    /// A provider's answer to content, hash and policy of timelines that can be stored.
    var parse: MeasuredCase {
        let answer = Self.answer(to: ids)
        let requested = ids.map { RequestedTimeline($0) }
        return MeasuredCase(name: "provider response parse", items: Self.count, expected: Self.count) {
            let response = try? ProviderResponse.parse(answer, requested: requested)
            return (response?.outcomes ?? []).count { outcome in
                if case .success = outcome { true } else { false }
            }
        }
    }

    /// Timelines from their claim to the end of their lists.
    var pipeline: MeasuredCase {
        let pipeline = PipelineCase(ids: ids, answer: Self.answer(to: ids), app: Self.app)
        return MeasuredCase(name: "pipeline", items: Self.count, expected: Self.count) { pipeline.run() }
    }

    /// The same in batches of four, as a trickle of events hands them over.
    var pipelineOfFour: MeasuredCase {
        let ids = Array(ids.prefix(Self.inSmallBatch))
        let pipeline = PipelineCase(ids: ids, answer: Self.answer(to: ids), app: Self.app)
        return MeasuredCase(name: "pipeline of four", items: Self.count, expected: Self.count) {
            (0..<Self.count / Self.inSmallBatch).reduce(0) { count, _ in count + pipeline.run() }
        }
    }

    /// Stored timelines to the messages that tell of them.
    var publish: MeasuredCase {
        let kind = Self.kind("RecentPurchases", id: 1, app: Self.app)
        let stored = zip(ids.indices, contents).map { (timeline: timeline($0), content: $1) }
        return MeasuredCase(name: "publish", items: stored.count, expected: Self.count) {
            var messages = TimelineMessages(topic: "freshet.timelines")
            let made = stored.map { messages.updated($0.timeline, of: kind, revision: 1_234_567, content: $0.content) }
            return made.count { $0.valueRange != nil }
        }
    }

    private func timeline(_ index: Int) -> ClaimedTimeline {
        let time = Timestamp(microseconds: 1_760_000_000_000_000)
        return ClaimedTimeline(
            row: Int64(index), id: ids[index], kindID: 1, state: TimelineState(), kind: KindGenerations(), revision: 1,
            contentRevision: 1, hash: nil, attempts: 0, listedAt: time, renderedAt: time, requestedAt: time,
            viewedAt: time, ledger: BudgetLedger(), views: ViewStatistics(), family: .systemSmall,
            hasUnknownFamily: false,
            configuration: WidgetConfiguration(storedCanonical: #"{"card":"card-\#(index)"}"#), locale: "en-GB",
            timeZone: "Europe/London", user: "user-\(index)", cause: nil, reason: .push, readAt: time)
    }

    /// Messages into librdkafka, until the sender is told of all of them.
    func producer() throws -> MeasuredCase {
        let messages = zip(ids, contents).map { id, content in
            KafkaMessage(
                topic: "freshet.timelines", key: Array("\(id)".utf8), value: content,
                headers: [KafkaHeader(name: "freshet-revision", value: "1000")])
        }
        let thread = try ProducerThread()
        return MeasuredCase(name: "producer", items: messages.count, expected: Self.count) {
            thread.send(messages)
        }
    }
}
