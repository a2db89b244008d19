// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka
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

    /// Creates topics.
    ///
    /// - Returns: the errors of the topics that were not created; `topicAlreadyExists` for one that existed before,
    ///   whose partitions and configuration may differ.
    /// - Throws: an error if the cluster did not answer.
    package func createTopics(
        _ topics: [KafkaTopicSpecification]
    ) async throws(KafkaError) -> [String: KafkaError] {
        guard !topics.isEmpty else { return [:] }
        return try await perform("create topics") { client throws(KafkaError) in
            var errors: [String: KafkaError] = [:]
            var requests: [OpaquePointer?] = unsafe []
            defer { for index in unsafe requests.indices { unsafe rd_kafka_NewTopic_destroy(requests[index]) } }
            for topic in topics {
                do throws(KafkaError) {
                    unsafe requests.append(try client.request(for: topic))
                } catch {
                    errors[topic.name] = error
                }
            }
            guard unsafe !requests.isEmpty else { return errors }
            let results = unsafe try client.perform(RD_KAFKA_ADMIN_OP_CREATETOPICS) { options, queue in
                unsafe rd_kafka_CreateTopics(client.handle.pointer, &requests, requests.count, options, queue)
            } reading: { event in
                unsafe client.topicResults {
                    unsafe rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), $0)
                }
            }
            let reported = Dictionary(results) { $1 }
            for topic in topics where errors[topic.name] == nil {
                guard let error = reported[topic.name] else {
                    errors[topic.name] = KafkaError(
                        RD_KAFKA_RESP_ERR__FAIL, message: "the brokers did not report an outcome",
                        context: client.context(topic.name))
                    continue
                }
                errors[topic.name] = error
            }
            return errors
        }
    }

    /// Gives a topic more partitions.
    /// - Parameter count: new number of partitions, which can only grow.
    package func createPartitions(_ topic: String, count: Int) async throws(KafkaError) {
        try await perform("create partitions") { client throws(KafkaError) in
            let (request, text) = unsafe withErrorText {
                unsafe rd_kafka_NewPartitions_new(topic, max(count, 0), $0, $1)
            }
            guard let request = unsafe request else {
                throw KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, message: text, context: client.context(topic))
            }
            defer { unsafe rd_kafka_NewPartitions_destroy(request) }
            var requests: [OpaquePointer?] = unsafe [request]
            let results = unsafe try client.perform(RD_KAFKA_ADMIN_OP_CREATEPARTITIONS, topic) { options, queue in
                unsafe rd_kafka_CreatePartitions(client.handle.pointer, &requests, requests.count, options, queue)
            } reading: { event in
                unsafe client.topicResults {
                    unsafe rd_kafka_CreatePartitions_result_topics(rd_kafka_event_CreatePartitions_result(event), $0)
                }
            }
            for (_, error) in results { if let error { throw error } }
        }
    }

    /// Deletes topics; nil for a topic that is deleted or marked for deletion.
    package func deleteTopics(_ names: [String]) async throws(KafkaError) -> [String: KafkaError?] {
        guard !names.isEmpty else { return [:] }
        return try await perform("delete topics") { client throws(KafkaError) in
            var requests: [OpaquePointer?] = unsafe names.map { unsafe rd_kafka_DeleteTopic_new($0) }
            defer { for index in unsafe requests.indices { unsafe rd_kafka_DeleteTopic_destroy(requests[index]) } }
            let results = unsafe try client.perform(RD_KAFKA_ADMIN_OP_DELETETOPICS) { options, queue in
                unsafe rd_kafka_DeleteTopics(client.handle.pointer, &requests, requests.count, options, queue)
            } reading: { event in
                unsafe client.topicResults {
                    unsafe rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), $0)
                }
            }
            return Dictionary(results) { $1 }
        }
    }

    /// The topics with their partitions, in the given order. Never creates a topic.
    /// - Parameter names: `nil` for all topics, by name.
    /// - Throws: `unknownTopicOrPartition` if one is missing.
    package func describe(topics names: [String]? = nil) async throws(KafkaError) -> [KafkaTopicDescription] {
        try await perform("describe topics") { client throws(KafkaError) in
            let found = try client.lookUp()
            guard let names else { return found.values.compactMap { try? $0.get() }.sorted { $0.name < $1.name } }
            var descriptions: [KafkaTopicDescription] = []
            for name in names { descriptions.append(try client.description(of: name, in: found).get()) }
            return descriptions
        }
    }

    /// The partitions of each topic, or its error. Never creates a topic.
    package func partitions(
        of topics: [String]
    ) async throws(KafkaError) -> [String: Result<[TopicPartition], KafkaError>] {
        try await perform("describe topics") { client throws(KafkaError) in
            let found = try client.lookUp()
            return Dictionary(topics.map { ($0, client.description(of: $0, in: found).map(\.places)) }) { $1 }
        }
    }

    /// Bounds of a partition's log: the offset of the oldest message, and the one that the next message will have.
    package func bounds(of partition: TopicPartition) async throws(KafkaError) -> Range<Int64> {
        try await perform("ask for the bounds of a log") { client throws(KafkaError) in
            try client.bounds(of: partition)
        }
    }

    /// Bounds of the logs of several partitions, over one connection.
    package func bounds(of partitions: [TopicPartition]) async throws(KafkaError) -> [TopicPartition: Range<Int64>] {
        try await perform("ask for the bounds of logs") { client throws(KafkaError) in
            var bounds: [TopicPartition: Range<Int64>] = [:]
            for partition in partitions { bounds[partition] = try client.bounds(of: partition) }
            return bounds
        }
    }

    /// Id of the cluster; nil if the brokers have none.
    package func clusterID() async throws(KafkaError) -> String? {
        try await perform("ask for the cluster's id") { client throws(KafkaError) in
            // Every response to a metadata request carries the id.
            _ = try client.lookUp()
            guard let text = unsafe rd_kafka_clusterid(client.handle.pointer, client.milliseconds) else { return nil }
            defer { unsafe rd_kafka_mem_free(client.handle.pointer, text) }
            return unsafe String(cString: text)
        }
    }

    /// A topic's configuration, defaults included.
    package func configuration(ofTopic name: String) async throws(KafkaError) -> [String: String] {
        try await perform("describe configuration") { client throws(KafkaError) in
            var requests: [OpaquePointer?] = unsafe [rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name)]
            defer { for index in unsafe requests.indices { unsafe rd_kafka_ConfigResource_destroy(requests[index]) } }
            return unsafe try client.perform(RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, name) { options, queue in
                unsafe rd_kafka_DescribeConfigs(client.handle.pointer, &requests, requests.count, options, queue)
            } reading: { event throws(KafkaError) in
                unsafe try client.configuration(of: name, in: event)
            }
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

/// A client for the blocking calls of one administration operation, on one thread.
private struct AdminClient: ~Copyable {
    let handle: ClientHandle
    let milliseconds: Int32
    private let operation: String

    init(
        _ configuration: KafkaConfiguration, timeout: Duration, logger: Logger, operation: String
    ) throws(KafkaError) {
        // A consumer without a group. Unlike a producer, it asks the brokers not to create topics.
        handle = try ClientHandle(
            .consumer, configuration, defaults: ["client.id": "freshet-admin"],
            fixed: ["allow.auto.create.topics": "false"], logger: logger, operation: operation)
        self.operation = operation
        milliseconds = Int32(min(max(timeout / .milliseconds(1), 1), 3_600_000))
    }

    deinit { handle.destroy() }

    func context(_ topic: String? = nil) -> KafkaError.Context {
        KafkaError.Context(operation: operation, topic: topic)
    }

    func request(for topic: KafkaTopicSpecification) throws(KafkaError) -> OpaquePointer {
        let (request, text) = unsafe withErrorText {
            unsafe rd_kafka_NewTopic_new(
                topic.name, Int32(clamping: topic.partitions), Int32(clamping: topic.replicationFactor ?? -1), $0, $1)
        }
        guard let request = unsafe request else {
            throw KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, message: text, context: context(topic.name))
        }
        for (name, value) in topic.configuration {
            let response = unsafe rd_kafka_NewTopic_set_config(request, name, value)
            guard response == RD_KAFKA_RESP_ERR_NO_ERROR else {
                unsafe rd_kafka_NewTopic_destroy(request)
                throw KafkaError(response, context: context(topic.name))
            }
        }
        return unsafe request
    }

    /// Reads the results of topics from a response.
    func topicResults(
        _ read: (_ count: UnsafeMutablePointer<Int>) -> UnsafeMutablePointer<OpaquePointer?>?
    ) -> [(String, KafkaError?)] {
        var count = 0
        guard let results = unsafe read(&count) else { return [] }
        return (0..<count).map { index in
            let result = unsafe results[index]
            let name = unsafe String(cString: rd_kafka_topic_result_name(result))
            let response = unsafe rd_kafka_topic_result_error(result)
            guard response != RD_KAFKA_RESP_ERR_NO_ERROR else { return (name, nil) }
            let reason = unsafe rd_kafka_topic_result_error_string(result).map { unsafe String(cString: $0) }
            return (name, KafkaError(response, message: reason, context: context(name)))
        }
    }

    typealias Descriptions = [String: Result<KafkaTopicDescription, KafkaError>]

    func description(of name: String, in found: Descriptions) -> Result<KafkaTopicDescription, KafkaError> {
        found[name] ?? .failure(KafkaError(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, context: context(name)))
    }

    /// Reads a topic's configuration from a response.
    func configuration(of name: String, in event: OpaquePointer) throws(KafkaError) -> [String: String] {
        var count = 0
        let resources = unsafe rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(event), &count)
        guard let resources = unsafe resources, count > 0 else { return [:] }
        let response = unsafe rd_kafka_ConfigResource_error(resources[0])
        guard response == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(response, context: context(name)) }

        var entryCount = 0
        let entries = unsafe rd_kafka_ConfigResource_configs(resources[0], &entryCount)
        var configuration: [String: String] = [:]
        for index in 0..<entryCount {
            guard let entry = unsafe entries?[index], let value = unsafe rd_kafka_ConfigEntry_value(entry) else {
                continue
            }
            unsafe configuration[String(cString: rd_kafka_ConfigEntry_name(entry))] = unsafe String(cString: value)
        }
        return configuration
    }

    func lookUp() throws(KafkaError) -> Descriptions {
        var metadata: UnsafePointer<rd_kafka_metadata>?
        // Asks for all topics, because a broker may create a topic that the request names, and the embedded broker
        // always does.
        let response = unsafe rd_kafka_metadata(handle.pointer, 1, nil, &metadata, milliseconds)
        guard response == RD_KAFKA_RESP_ERR_NO_ERROR, let metadata = unsafe metadata else {
            throw KafkaError(response, context: context())
        }
        defer { unsafe rd_kafka_metadata_destroy(metadata) }

        var found: Descriptions = [:]
        for index in 0..<Int(unsafe metadata.pointee.topic_cnt) {
            let topic = unsafe metadata.pointee.topics[index]
            let name = unsafe String(cString: topic.topic)
            if unsafe topic.err != RD_KAFKA_RESP_ERR_NO_ERROR {
                found[name] = .failure(KafkaError(unsafe topic.err, context: context(name)))
            } else {
                found[name] = .success(unsafe Self.description(name, topic))
            }
        }
        return found
    }

    private static func description(_ name: String, _ topic: rd_kafka_metadata_topic) -> KafkaTopicDescription {
        let partitions = (0..<Int(unsafe topic.partition_cnt)).map { index in
            let partition = unsafe topic.partitions[index]
            return unsafe KafkaTopicDescription.Partition(
                id: partition.id, leader: partition.leader < 0 ? nil : partition.leader,
                replicas: Array(UnsafeBufferPointer(start: partition.replicas, count: Int(partition.replica_cnt))),
                inSyncReplicas: Array(UnsafeBufferPointer(start: partition.isrs, count: Int(partition.isr_cnt))))
        }
        return KafkaTopicDescription(name: name, partitions: partitions.sorted { $0.id < $1.id })
    }

    func bounds(of partition: TopicPartition) throws(KafkaError) -> Range<Int64> {
        var low: Int64 = 0
        var high: Int64 = 0
        let response = unsafe rd_kafka_query_watermark_offsets(
            handle.pointer, partition.topic, partition.partition, &low, &high, milliseconds)
        guard response == RD_KAFKA_RESP_ERR_NO_ERROR else {
            var context = context(partition.topic)
            context.partition = partition.partition
            throw KafkaError(response, context: context)
        }
        return low..<max(low, high)
    }

    /// Sends an administration request, waits for the response, and reads it.
    func perform<Value>(
        _ kind: rd_kafka_admin_op_t, _ topic: String? = nil,
        _ request: (_ options: OpaquePointer?, _ queue: OpaquePointer?) -> Void,
        reading read: (_ event: OpaquePointer) throws(KafkaError) -> Value
    ) throws(KafkaError) -> Value {
        let queue = unsafe rd_kafka_queue_new(handle.pointer)
        defer { unsafe rd_kafka_queue_destroy(queue) }
        let options = unsafe rd_kafka_AdminOptions_new(handle.pointer, kind)
        defer { unsafe rd_kafka_AdminOptions_destroy(options) }
        let (response, _) = unsafe withErrorText {
            unsafe rd_kafka_AdminOptions_set_request_timeout(options, milliseconds, $0, $1)
        }
        guard response == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(response, context: context(topic)) }
        unsafe request(options, queue)

        // librdkafka keeps its own timeout; the margin guards against waiting forever.
        guard let event = unsafe rd_kafka_queue_poll(queue, milliseconds + 5000) else {
            throw KafkaError(RD_KAFKA_RESP_ERR__TIMED_OUT, context: context(topic))
        }
        defer { unsafe rd_kafka_event_destroy(event) }
        let failure = unsafe rd_kafka_event_error(event)
        guard failure == RD_KAFKA_RESP_ERR_NO_ERROR else {
            let reason = unsafe rd_kafka_event_error_string(event).map { unsafe String(cString: $0) }
            throw KafkaError(failure, message: reason, context: context(topic))
        }
        return unsafe try read(event)
    }
}
