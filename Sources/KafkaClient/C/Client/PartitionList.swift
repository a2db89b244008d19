internal import CRdKafka

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
