package import Logging

/// Administration of topics. Each call makes a connection and a thread of its own, so the caller's thread is not
/// blocked.
package struct KafkaAdmin: Sendable {
    private let configuration: KafkaConfiguration
    private let timeout: Duration
    private let logger: Logger

    /// - Parameter timeout: of each call, connecting included; at least 1 ms.
    package init(configuration: KafkaConfiguration, timeout: Duration = .seconds(15), logger: Logger) {
        (self.configuration, self.timeout, self.logger) = (configuration, timeout, logger)
    }

    /// Creates missing topics and returns the outcomes by name.
    /// - Throws: an error if the cluster did not answer. Errors of single topics are outcomes.
    package func createTopics(
        _ topics: [KafkaTopicSpecification]
    ) async throws(KafkaError) -> [String: KafkaTopicOutcome] {
        guard !topics.isEmpty else { return [:] }
        return try await perform("create topics") { client throws(KafkaError) in try client.createTopics(topics) }
    }

    /// Gives a topic more partitions.
    /// - Parameter count: new number of partitions, which can only grow.
    package func createPartitions(_ topic: String, count: Int) async throws(KafkaError) {
        try await perform("create partitions") { client throws(KafkaError) in
            try client.createPartitions(topic, count: count)
        }
    }

    /// Deletes topics; nil for a topic that is deleted or marked for deletion.
    package func deleteTopics(_ names: [String]) async throws(KafkaError) -> [String: KafkaError?] {
        guard !names.isEmpty else { return [:] }
        return try await perform("delete topics") { client throws(KafkaError) in try client.deleteTopics(names) }
    }

    /// The topics with their partitions, in the given order. Never creates a topic.
    /// - Parameter names: `nil` for all topics, by name.
    /// - Throws: `unknownTopicOrPartition` if one is missing.
    package func describe(topics names: [String]? = nil) async throws(KafkaError) -> [KafkaTopicDescription] {
        try await perform("describe topics") { client throws(KafkaError) in try client.describe(topics: names) }
    }

    /// The partitions of each topic, or its error. Never creates a topic.
    package func partitions(
        of topics: [String]
    ) async throws(KafkaError) -> [String: Result<[TopicPartition], KafkaError>] {
        try await perform("describe topics") { client throws(KafkaError) in try client.partitions(of: topics) }
    }

    /// Bounds of a partition's log.
    package func bounds(of partition: TopicPartition) async throws(KafkaError) -> KafkaLogBounds {
        try await perform("ask for the bounds of a log") { client throws(KafkaError) in
            try client.bounds(of: partition)
        }
    }

    /// Bounds of the logs of several partitions, over one connection.
    package func bounds(of partitions: [TopicPartition]) async throws(KafkaError) -> [TopicPartition: KafkaLogBounds] {
        try await perform("ask for the bounds of logs") { client throws(KafkaError) in
            var bounds: [TopicPartition: KafkaLogBounds] = [:]
            for partition in partitions { bounds[partition] = try client.bounds(of: partition) }
            return bounds
        }
    }

    /// Id of the cluster; nil if the brokers have none.
    package func clusterID() async throws(KafkaError) -> String? {
        try await perform("ask for the cluster's id") { client throws(KafkaError) in try client.clusterID() }
    }

    /// A topic's configuration, defaults included.
    package func configuration(ofTopic name: String) async throws(KafkaError) -> [String: String] {
        try await perform("describe configuration") { client throws(KafkaError) in
            try client.configuration(ofTopic: name)
        }
    }

    private func perform<Value: Sendable>(
        _ operation: String, _ body: @escaping @Sendable (borrowing AdminClient) throws(KafkaError) -> Value
    ) async throws(KafkaError) -> Value {
        try await PollThread.perform("kafka-admin") { answer in
            do throws(KafkaError) {
                let client = try AdminClient(configuration, timeout: timeout, logger: logger, operation: operation)
                answer(.success(try body(client)))
            } catch {
                answer(.failure(error))
            }
        }
    }
}
