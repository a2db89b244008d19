internal import CRdKafka
internal import Logging

/// A client for the blocking calls of one administration operation, on one thread.
struct AdminClient: ~Copyable {
    private let client: ClientHandle
    private let milliseconds: Int32
    private let operation: String

    init(
        _ configuration: KafkaConfiguration, timeout: Duration, logger: Logger, operation: String
    ) throws(KafkaError) {
        // A consumer without a group. Unlike a producer, it asks the brokers not to create topics.
        client = try ClientHandle(
            .consumer, configuration, defaults: ["client.id": "freshet-admin"],
            fixed: ["allow.auto.create.topics": "false"], logger: logger, operation: operation)
        self.operation = operation
        milliseconds = Int32(min(max(timeout / .milliseconds(1), 1), 3_600_000))
    }

    deinit { client.destroy() }

    private func context(_ topic: String? = nil) -> KafkaError.Context {
        KafkaError.Context(operation: operation, topic: topic)
    }

    // MARK: Topics

    func createTopics(_ topics: [KafkaTopicSpecification]) throws(KafkaError) -> [String: KafkaTopicOutcome] {
        var outcomes: [String: KafkaTopicOutcome] = [:]
        var requests: [OpaquePointer?] = unsafe []
        defer { for index in unsafe requests.indices { unsafe rd_kafka_NewTopic_destroy(requests[index]) } }
        for topic in topics {
            do {
                unsafe requests.append(try request(for: topic))
            } catch {
                outcomes[topic.name] = .failed(error)
            }
        }
        guard unsafe !requests.isEmpty else { return outcomes }

        let event = unsafe try AdminEvent(client, RD_KAFKA_ADMIN_OP_CREATETOPICS, milliseconds, context()) {
            options, queue in
            unsafe rd_kafka_CreateTopics(client.pointer, &requests, requests.count, options, queue)
        }
        var count = 0
        let results = unsafe rd_kafka_CreateTopics_result_topics(
            rd_kafka_event_CreateTopics_result(event.pointer), &count)
        for (name, error) in unsafe topicResults(results, count) {
            guard let error else {
                outcomes[name] = .created
                continue
            }
            outcomes[name] = error.code == .topicAlreadyExists ? .alreadyExists : .failed(error)
        }
        return outcomes
    }

    private func request(for topic: KafkaTopicSpecification) throws(KafkaError) -> OpaquePointer {
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

    func createPartitions(_ topic: String, count total: Int) throws(KafkaError) {
        let (request, text) = unsafe withErrorText { unsafe rd_kafka_NewPartitions_new(topic, max(total, 0), $0, $1) }
        guard let request = unsafe request else {
            throw KafkaError(RD_KAFKA_RESP_ERR__INVALID_ARG, message: text, context: context(topic))
        }
        defer { unsafe rd_kafka_NewPartitions_destroy(request) }
        var requests: [OpaquePointer?] = unsafe [request]
        let event = unsafe try AdminEvent(client, RD_KAFKA_ADMIN_OP_CREATEPARTITIONS, milliseconds, context(topic)) {
            options, queue in
            unsafe rd_kafka_CreatePartitions(client.pointer, &requests, requests.count, options, queue)
        }
        var count = 0
        let results = unsafe rd_kafka_CreatePartitions_result_topics(
            rd_kafka_event_CreatePartitions_result(event.pointer), &count)
        for (_, error) in unsafe topicResults(results, count) { if let error { throw error } }
    }

    func deleteTopics(_ names: [String]) throws(KafkaError) -> [String: KafkaError?] {
        var requests: [OpaquePointer?] = unsafe names.map { unsafe rd_kafka_DeleteTopic_new($0) }
        defer { for index in unsafe requests.indices { unsafe rd_kafka_DeleteTopic_destroy(requests[index]) } }
        let event = unsafe try AdminEvent(client, RD_KAFKA_ADMIN_OP_DELETETOPICS, milliseconds, context()) {
            options, queue in
            unsafe rd_kafka_DeleteTopics(client.pointer, &requests, requests.count, options, queue)
        }
        var count = 0
        let results = unsafe rd_kafka_DeleteTopics_result_topics(
            rd_kafka_event_DeleteTopics_result(event.pointer), &count)
        return Dictionary(unsafe topicResults(results, count)) { $1 }
    }

    private func topicResults(
        _ results: UnsafeMutablePointer<OpaquePointer?>?, _ count: Int
    ) -> [(String, KafkaError?)] {
        guard let results = unsafe results else { return [] }
        return (0..<count).map { index in
            let result = unsafe results[index]
            let name = unsafe String(cString: rd_kafka_topic_result_name(result))
            let response = unsafe rd_kafka_topic_result_error(result)
            guard response != RD_KAFKA_RESP_ERR_NO_ERROR else { return (name, nil) }
            let reason = unsafe rd_kafka_topic_result_error_string(result).map { unsafe String(cString: $0) }
            return (name, KafkaError(response, message: reason, context: context(name)))
        }
    }

    // MARK: Description

    func describe(topics names: [String]?) throws(KafkaError) -> [KafkaTopicDescription] {
        let found = try lookUp()
        guard let names else { return found.values.compactMap { try? $0.get() }.sorted { $0.name < $1.name } }
        var descriptions: [KafkaTopicDescription] = []
        for name in names { descriptions.append(try description(of: name, in: found).get()) }
        return descriptions
    }

    /// The partitions of each topic, or its error.
    func partitions(of names: [String]) throws(KafkaError) -> [String: Result<[TopicPartition], KafkaError>] {
        let found = try lookUp()
        return Dictionary(names.map { ($0, description(of: $0, in: found).map(\.places)) }) { $1 }
    }

    private typealias Descriptions = [String: Result<KafkaTopicDescription, KafkaError>]

    private func description(of name: String, in found: Descriptions) -> Result<KafkaTopicDescription, KafkaError> {
        found[name] ?? .failure(KafkaError(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, context: context(name)))
    }

    private func lookUp() throws(KafkaError) -> Descriptions {
        var metadata: UnsafePointer<rd_kafka_metadata>?
        // Asks for all topics, because a broker may create a topic that the request names, and the embedded broker
        // always does.
        let response = unsafe rd_kafka_metadata(client.pointer, 1, nil, &metadata, milliseconds)
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

    func clusterID() throws(KafkaError) -> String? {
        // Every response to a metadata request carries the id.
        _ = try describe(topics: nil)
        guard let text = unsafe rd_kafka_clusterid(client.pointer, milliseconds) else { return nil }
        defer { unsafe rd_kafka_mem_free(client.pointer, text) }
        return unsafe String(cString: text)
    }

    func bounds(of partition: TopicPartition) throws(KafkaError) -> KafkaLogBounds {
        var low: Int64 = 0
        var high: Int64 = 0
        let response = unsafe rd_kafka_query_watermark_offsets(
            client.pointer, partition.topic, partition.partition, &low, &high, milliseconds)
        guard response == RD_KAFKA_RESP_ERR_NO_ERROR else {
            var context = context(partition.topic)
            context.partition = partition.partition
            throw KafkaError(response, context: context)
        }
        return KafkaLogBounds(earliest: low, end: high)
    }

    func configuration(ofTopic name: String) throws(KafkaError) -> [String: String] {
        var requests: [OpaquePointer?] = unsafe [rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name)]
        defer { for index in unsafe requests.indices { unsafe rd_kafka_ConfigResource_destroy(requests[index]) } }
        let event = unsafe try AdminEvent(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, milliseconds, context(name)) {
            options, queue in
            unsafe rd_kafka_DescribeConfigs(client.pointer, &requests, requests.count, options, queue)
        }
        var count = 0
        let resources = unsafe rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(event.pointer), &count)
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
}

/// The response to an administration request. It sends the request, waits, and owns the result.
@safe private struct AdminEvent: ~Copyable {
    let pointer: OpaquePointer

    init(
        _ client: ClientHandle, _ kind: rd_kafka_admin_op_t, _ milliseconds: Int32, _ context: KafkaError.Context,
        _ request: (_ options: OpaquePointer?, _ queue: OpaquePointer?) -> Void
    ) throws(KafkaError) {
        let queue = unsafe rd_kafka_queue_new(client.pointer)
        defer { unsafe rd_kafka_queue_destroy(queue) }
        let options = unsafe rd_kafka_AdminOptions_new(client.pointer, kind)
        defer { unsafe rd_kafka_AdminOptions_destroy(options) }
        let (response, _) = unsafe withErrorText {
            unsafe rd_kafka_AdminOptions_set_request_timeout(options, milliseconds, $0, $1)
        }
        guard response == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(response, context: context) }
        unsafe request(options, queue)

        // librdkafka keeps its own timeout; the margin guards against waiting forever.
        guard let event = unsafe rd_kafka_queue_poll(queue, milliseconds + 5000) else {
            throw KafkaError(RD_KAFKA_RESP_ERR__TIMED_OUT, context: context)
        }
        let failure = unsafe rd_kafka_event_error(event)
        guard failure == RD_KAFKA_RESP_ERR_NO_ERROR else {
            let reason = unsafe rd_kafka_event_error_string(event).map { unsafe String(cString: $0) }
            unsafe rd_kafka_event_destroy(event)
            throw KafkaError(failure, message: reason, context: context)
        }
        unsafe pointer = event
    }

    deinit { unsafe rd_kafka_event_destroy(pointer) }
}
