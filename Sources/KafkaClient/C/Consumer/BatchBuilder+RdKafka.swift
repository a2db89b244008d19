internal import CRdKafka

extension BatchBuilder {
    /// Copies a message. It is the caller's and valid during the call.
    mutating func append(_ message: UnsafeMutablePointer<rd_kafka_message_t>, topicIndex: Int32) {
        var kind = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE
        let timestamp = unsafe rd_kafka_message_timestamp(message, &kind)
        unsafe append(
            topicIndex: topicIndex, partition: message.pointee.partition, offset: message.pointee.offset,
            timestampMilliseconds: kind == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : timestamp,
            key: Self.bytes(message.pointee.key, message.pointee.key_len),
            value: Self.bytes(message.pointee.payload, message.pointee.len))

        var headers: OpaquePointer?
        guard unsafe rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        var index = 0
        var name: UnsafePointer<CChar>?
        var value: UnsafeRawPointer?
        var size = 0
        while unsafe rd_kafka_header_get_all(headers, index, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
            index += 1
            guard let name = unsafe name else { continue }
            let length = unsafe Self.length(of: name)
            unsafe appendHeader(
                name: UnsafeRawBufferPointer(start: name, count: length), value: Self.bytes(value, size))
        }
    }

    /// nil for null. librdkafka gives a pointer for what is empty.
    private static func bytes(_ start: UnsafeRawPointer?, _ count: Int) -> UnsafeRawBufferPointer? {
        unsafe start.map { unsafe UnsafeRawBufferPointer(start: $0, count: count) }
    }

    private static func length(of text: UnsafePointer<CChar>) -> Int {
        var length = 0
        while unsafe text[length] != 0 { length += 1 }
        return length
    }
}
