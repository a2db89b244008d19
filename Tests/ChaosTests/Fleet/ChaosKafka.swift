// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging

/// Topics of a run, on its own embedded cluster (which killing Freshet's processes does not affect) or on a real one.
final class ChaosKafka: Sendable {
    static let partitions = 4

    let configuration: KafkaConfiguration
    let embedded: EmbeddedKafka?
    /// Ports of the embedded brokers; their ids are 1, 2, …
    let brokerPorts: [UInt16]
    let topics: ChaosTopics
    let group: String
    private let admin: KafkaAdmin

    init(_ options: ChaosOptions, logger: Logger) async throws {
        let suffix = options.bootstrapServers == nil ? "" : "-\(String(UInt32.random(in: 0 ... .max), radix: 36))"
        topics = ChaosTopics(suffix: suffix)
        group = "freshet-chaos\(suffix)"
        if let servers = options.bootstrapServers {
            configuration = KafkaConfiguration(bootstrapServers: servers, properties: options.kafkaProperties)
            embedded = nil
            brokerPorts = []
            admin = KafkaAdmin(configuration: configuration, logger: logger)
            let errors = try await admin.createTopics(
                topics.all.map { KafkaTopicSpecification(name: $0, partitions: Self.partitions) })
            for error in errors.values where error.code != .topicAlreadyExists { throw error }
        } else {
            let embedded = try EmbeddedKafka(brokers: 2, logger: logger)
            self.embedded = embedded
            configuration = embedded.configuration
            admin = KafkaAdmin(configuration: configuration, logger: logger)
            brokerPorts = embedded.bootstrapServers.split(separator: ",").compactMap { address in
                address.split(separator: ":").last.flatMap { UInt16($0) }
            }
            for topic in topics.all { try embedded.createTopic(topic, partitions: Self.partitions) }
        }
    }

    /// Whether these offsets are the current ends of the topics according to the brokers. A consumer's own knowledge is
    /// as old as its last fetch, and empty while it has no partition.
    func hasNothing(beyond next: [TopicPartition: Int64], of topics: [String]) async -> Bool {
        let places = topics.flatMap { topic in
            (0..<Int32(Self.partitions)).map { TopicPartition(topic: topic, partition: $0) }
        }
        return await withTaskGroup(of: Bool.self) { group in
            for place in places {
                group.addTask { [admin] in (try? await admin.bounds(of: place))?.upperBound == next[place] ?? 0 }
            }
            return await group.allSatisfy { $0 }
        }
    }

    func close() async {
        if embedded == nil { _ = try? await admin.deleteTopics(topics.all) }
        await embedded?.shutdown()
    }
}

/// Names of the topics.
struct ChaosTopics: Sendable {
    let pushes: String
    let appChanges: String
    let widgets: String
    let donations: String
    let timelines: String
    let suggestions: String
    let deadLetters: String
    let decisions: String

    init(suffix: String) {
        pushes = "freshet.pushes\(suffix)"
        appChanges = "freshet.app-changes\(suffix)"
        widgets = "freshet.widgets\(suffix)"
        donations = "freshet.donations\(suffix)"
        timelines = "freshet.timelines\(suffix)"
        suggestions = "freshet.suggestions\(suffix)"
        deadLetters = "freshet.dead-letters\(suffix)"
        decisions = "freshet.decisions\(suffix)"
    }

    var inputs: [String] { [pushes, appChanges, widgets, donations] }
    var all: [String] { inputs + [timelines, suggestions, deadLetters, decisions] }

    /// Environment of the processes.
    var environment: [String: String] {
        [
            "FRESHET_TOPICS_PUSHES": pushes, "FRESHET_TOPICS_APP_CHANGES": appChanges,
            "FRESHET_TOPICS_WIDGETS": widgets, "FRESHET_TOPICS_DONATIONS": donations,
            "FRESHET_TOPICS_TIMELINES": timelines, "FRESHET_TOPICS_SUGGESTIONS": suggestions,
            "FRESHET_TOPICS_DEAD_LETTERS": deadLetters, "FRESHET_TOPICS_DECISIONS": decisions,
        ]
    }
}
