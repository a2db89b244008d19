// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka

extension KafkaError.Code {
    init(_ response: rd_kafka_resp_err_t) {
        let name = unsafe rd_kafka_err2name(response)
        self.init(number: response.rawValue, name: unsafe name.map { unsafe String(cString: $0) } ?? "UNKNOWN")
    }

    var response: rd_kafka_resp_err_t { rd_kafka_resp_err_t(rawValue: number) }
}

extension KafkaError {
    /// Makes an error from a plain code, with librdkafka's text unless one is given.
    init(
        _ response: rd_kafka_resp_err_t, message: String? = nil, isFatal: Bool = false,
        isPossiblyPersisted: Bool = false, context: Context
    ) {
        self.init(
            code: Code(response), message: unsafe message ?? String(cString: rd_kafka_err2str(response)),
            isRetriable: !isFatal && Self.retriable.contains(response.rawValue),
            isFatal: isFatal || response == RD_KAFKA_RESP_ERR__FATAL, isPossiblyPersisted: isPossiblyPersisted,
            context: context)
    }

    /// Makes an error from an error object, which is freed; nil without one.
    init?(taking error: OpaquePointer?, context: Context) {
        guard let error = unsafe error else { return nil }
        let response = unsafe rd_kafka_error_code(error)
        self.init(
            response, message: unsafe String(cString: rd_kafka_error_string(error)),
            isFatal: unsafe rd_kafka_error_is_fatal(error) != 0, context: context)
        if unsafe rd_kafka_error_is_retriable(error) != 0 { isRetriable = true }
        unsafe rd_kafka_error_destroy(error)
    }

    /// The client's fatal error, if it has raised one.
    static func fatal(of client: ClientHandle, operation: String) -> KafkaError? {
        let (response, text) = unsafe withErrorText { unsafe rd_kafka_fatal_error(client.pointer, $0, $1) }
        guard response != RD_KAFKA_RESP_ERR_NO_ERROR else { return nil }
        return KafkaError(response, message: text, isFatal: true, context: Context(operation: operation))
    }

    /// Errors after which a retry can succeed: connections, elections, overload, timeouts.
    private static let retriable: Set<Int32> = Set(
        [
            RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, RD_KAFKA_RESP_ERR__RESOLVE,
            RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RD_KAFKA_RESP_ERR__TIMED_OUT, RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE,
            RD_KAFKA_RESP_ERR__QUEUE_FULL, RD_KAFKA_RESP_ERR__WAIT_COORD, RD_KAFKA_RESP_ERR__IN_PROGRESS,
            RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS, RD_KAFKA_RESP_ERR__WAIT_CACHE, RD_KAFKA_RESP_ERR__RETRY,
            RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED, RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST, RD_KAFKA_RESP_ERR__OUTDATED,
            RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS, RD_KAFKA_RESP_ERR_NOT_CONTROLLER,
            RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, RD_KAFKA_RESP_ERR_FETCH_SESSION_ID_NOT_FOUND,
            RD_KAFKA_RESP_ERR_INVALID_FETCH_SESSION_EPOCH, RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT,
            RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, RD_KAFKA_RESP_ERR_PREFERRED_LEADER_NOT_AVAILABLE,
        ].map(\.rawValue))
}

/// Owns librdkafka's list of partitions with offsets.
@safe struct PartitionList: ~Copyable {
    let pointer: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>

    init(_ places: [TopicPartition]) {
        unsafe pointer = rd_kafka_topic_partition_list_new(Int32(places.count))
        for place in places {
            unsafe rd_kafka_topic_partition_list_add(pointer, place.topic, place.partition)
        }
    }

    init(_ offsets: [TopicPartition: Int64]) {
        unsafe pointer = rd_kafka_topic_partition_list_new(Int32(offsets.count))
        for (place, offset) in offsets {
            unsafe rd_kafka_topic_partition_list_add(pointer, place.topic, place.partition).pointee.offset = offset
        }
    }

    deinit { unsafe rd_kafka_topic_partition_list_destroy(pointer) }

    /// Partitions for which a call has left an error.
    func failures() -> [(place: TopicPartition, response: rd_kafka_resp_err_t)] {
        (0..<Int(unsafe pointer.pointee.cnt)).compactMap { index in
            let element = unsafe pointer.pointee.elems[index]
            guard unsafe element.err != RD_KAFKA_RESP_ERR_NO_ERROR else { return nil }
            let place = TopicPartition(
                topic: unsafe String(cString: element.topic), partition: unsafe element.partition)
            return (place, unsafe element.err)
        }
    }
}

extension KafkaOffset {
    var number: Int64 {
        switch self {
        case .earliest: Int64(RD_KAFKA_OFFSET_BEGINNING)
        case .latest: Int64(RD_KAFKA_OFFSET_END)
        case .at(let offset): offset
        case .behind(let message, _): message.offset
        }
    }
}
