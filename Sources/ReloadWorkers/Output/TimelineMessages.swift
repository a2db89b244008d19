// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Makes the messages on the topic of timelines; one value for those that are sent together.
struct TimelineMessages {
    /// `ce_source` of the workers' messages.
    private static let source = "/freshet/workers"

    private let topic: String
    private var encoder = TimelineEncoder(source: source)

    init(topic: String) {
        self.topic = topic
    }

    /// Message with a timeline's content.
    ///
    /// - Parameter headers: further headers.
    mutating func updated(
        _ timeline: ClaimedTimeline, of kind: RegisteredKind, revision: Int64, content: [UInt8],
        headers: [String: String] = [:]
    ) -> KafkaMessage {
        var event = encoder.encode(
            TimelineUpdatedEvent(
                timeline: timeline.id, identity: timeline.identity(of: kind), revision: revision, storedAt: nil,
                content: content))
        if !headers.isEmpty {
            for (name, value) in headers.sorted(by: { $0.key < $1.key }) { event.append(header: name, value) }
        }
        return KafkaMessage(event, topic: topic)
    }

    /// Tombstone of a timeline that no widget shows.
    func removed(_ id: TimelineID, revision: Int64) -> KafkaMessage {
        KafkaMessage(
            EncodedEvent(EncodedEvent.timelineRemoved, of: id, revision: revision, source: Self.source, value: nil),
            topic: topic)
    }
}

extension KafkaMessage {
    init(_ event: EncodedEvent, topic: String) {
        self.init(
            topic: topic, bytes: event.bytes, valueLength: event.valueLength, keyLength: event.keyLength,
            headerCount: event.headerCount)
    }
}

extension ClaimedTimeline {
    func identity(of kind: RegisteredKind) -> TimelineIdentity {
        TimelineIdentity(
            app: kind.app, kind: kind.definition.name, family: family, configuration: configuration, locale: locale,
            timeZone: timeZone, user: user)
    }
}
