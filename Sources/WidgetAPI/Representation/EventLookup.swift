import JSON
package import KafkaClient
import Synchronization
package import WidgetEvents
import WidgetModel
package import WidgetStore

/// Cause of an explained state, with the event's envelope if Kafka still has it.
package struct ExplainedEvent: Sendable {
    package enum Lookup: Hashable, Sendable {
        case found(EventEnvelope)
        /// The log no longer has it, or has another event in its place.
        case gone
        /// No brokers are configured, or they did not answer in time.
        case notLookedUp(String)
    }

    package let cause: ExplainedCause
    /// Name of its topic; nil without a position.
    package let topic: String?
    /// Nil without a position.
    package let lookup: Lookup?
}

/// Reads the events at stored positions from Kafka.
package struct EventLookup: Sendable {
    private let reader: KafkaReader?
    private let topics: [String]
    private let sorts: [EventTopic]
    private let places = Places()

    /// Limit for each look-up.
    private static let timeout = Duration.seconds(3)

    /// Limit on concurrent look-ups, each with its own client and thread.
    private final class Places: Sendable {
        private static let limit = 16
        private let taken = Mutex(0)

        func take() -> Bool {
            taken.withLock { taken in
                guard taken < Self.limit else { return false }
                taken += 1
                return true
            }
        }

        func giveBack() { taken.withLock { $0 -= 1 } }
    }

    /// - Parameters:
    ///   - reader: nil to look nothing up.
    ///   - topics: names of the input topics, in the order of `EventPosition.topic`.
    ///   - sorts: type of each topic.
    package init(reader: KafkaReader?, topics: [String], sorts: [EventTopic] = EventTopic.allCases) {
        self.reader = reader
        self.topics = topics
        self.sorts = sorts
    }

    /// Looks up the events of an app concurrently, each position once.
    package func events(_ causes: [ExplainedCause], of app: String) async -> [ExplainedEvent] {
        let positions = Set(causes.compactMap(\.position))
        var found: [EventPosition: ExplainedEvent.Lookup] = [:]
        await withTaskGroup(of: (EventPosition, ExplainedEvent.Lookup).self) { group in
            for position in positions { group.addTask { (position, await look(at: position, app)) } }
            for await (position, lookup) in group { found[position] = lookup }
        }
        return causes.map { cause in
            ExplainedEvent(
                cause: cause, topic: cause.position.map { topic($0) }, lookup: cause.position.flatMap { found[$0] })
        }
    }

    private func topic(_ position: EventPosition) -> String {
        let index = Int(position.topic)
        return topics.indices.contains(index) ? topics[index] : "topic \(index)"
    }

    private func look(at position: EventPosition, _ app: String) async -> ExplainedEvent.Lookup {
        guard let reader else { return .notLookedUp("kafka.bootstrapServers is not set") }
        let index = Int(position.topic)
        guard topics.indices.contains(index), sorts.indices.contains(index) else {
            return .notLookedUp("no such input topic")
        }
        guard places.take() else { return .notLookedUp("too many look-ups at a time") }
        defer { places.giveBack() }
        let batch: KafkaBatch?
        do throws(KafkaError) {
            batch = try await reader.message(
                topic: topics[index], partition: position.partition, offset: position.offset, timeout: Self.timeout)
        } catch {
            return error.code == .unknownTopicOrPartition ? .gone : .notLookedUp(error.message)
        }
        guard let batch, !batch.isEmpty else { return .gone }
        let headers = batch.headers(0).lazy.map { (name: $0.name, value: $0.value) }
        let result = EventDecoder().decode(
            bytes: batch.bytes, value: batch.value(0), headers: headers, topic: sorts[index])
        // The applied event was one of this app. Any other belongs to a later log and is not disclosed.
        guard case .success(let decoded) = result, Text.equal(decoded.event.app, app) else { return .gone }
        var envelope = decoded.envelope
        envelope.time = envelope.time ?? Timestamp(milliseconds: batch.records[0].timestampMilliseconds)
        return .found(envelope)
    }
}
