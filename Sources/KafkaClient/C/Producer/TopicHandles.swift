// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka

/// The producer's topic handles, made at the first use of a topic and freed with the producer; and the call that
/// produces. Used on the producer's thread only.
@safe struct TopicHandles {
    private var handles: [String: OpaquePointer] = unsafe [:]
    /// Topic of the latest message, as a rule that of the next one.
    private var latest: (name: String, handle: OpaquePointer)?
    /// Arguments of ``types``, used again for each message.
    private var arguments: [rd_kafka_vu_t] = unsafe types.map { type in
        var argument = unsafe rd_kafka_vu_t()
        unsafe argument.vtype = type
        return unsafe argument
    }

    /// Types of the arguments. A message without headers does without the last one.
    private static let types = [
        RD_KAFKA_VTYPE_RKT, RD_KAFKA_VTYPE_PARTITION, RD_KAFKA_VTYPE_MSGFLAGS, RD_KAFKA_VTYPE_OPAQUE,
        RD_KAFKA_VTYPE_TIMESTAMP, RD_KAFKA_VTYPE_KEY, RD_KAFKA_VTYPE_VALUE, RD_KAFKA_VTYPE_HEADERS,
    ]

    /// Copies the message into librdkafka's queue; the delivery report will carry the tag.
    mutating func produce(_ message: KafkaMessage, tag: Int, with client: ClientHandle) throws(KafkaError) {
        let topic = unsafe try handle(message.topic, client)
        let error = unsafe message.bytes.withUnsafeBytes { bytes in
            let headers = unsafe Self.headers(message, in: bytes)
            // In the order of `types`.
            unsafe arguments[0].u.rkt = topic
            unsafe arguments[1].u.i32 = message.partition ?? -1
            unsafe arguments[2].u.i = RD_KAFKA_MSG_F_COPY
            unsafe arguments[3].u.ptr = UnsafeMutableRawPointer(bitPattern: tag)
            // librdkafka takes 0 for the present time.
            unsafe arguments[4].u.i64 = message.timestampMilliseconds ?? 0
            unsafe Self.set(&arguments[5].u, message.keyRange, of: bytes)
            unsafe Self.set(&arguments[6].u, message.valueRange, of: bytes)
            unsafe arguments[7].u.headers = headers
            let count = unsafe headers == nil ? arguments.count - 1 : arguments.count
            let error = unsafe rd_kafka_produceva(client.pointer, arguments, count)
            // librdkafka takes the headers only if it takes the message.
            if unsafe error != nil, let headers = unsafe headers { unsafe rd_kafka_headers_destroy(headers) }
            return unsafe error
        }
        guard let error = unsafe error else { return }
        let context = KafkaError.Context(operation: "produce", topic: message.topic, partition: message.partition)
        if let error = unsafe KafkaError(taking: error, context: context) { throw error }
    }

    /// Before the client is destroyed.
    mutating func destroy() {
        unsafe latest = nil
        while let entry = unsafe handles.popFirst() { unsafe rd_kafka_topic_destroy(entry.value) }
    }

    private mutating func handle(_ topic: String, _ client: ClientHandle) throws(KafkaError) -> OpaquePointer {
        if let latest = unsafe latest, unsafe latest.name == topic { return unsafe latest.handle }
        if let handle = unsafe handles[topic] {
            unsafe latest = (topic, handle)
            return unsafe handle
        }
        guard let handle = unsafe rd_kafka_topic_new(client.pointer, topic, nil) else {
            throw KafkaError(rd_kafka_last_error(), context: KafkaError.Context(operation: "produce", topic: topic))
        }
        unsafe handles[topic] = handle
        unsafe latest = (topic, handle)
        return unsafe handle
    }

    /// Sets the key or the value, to a null pointer for null.
    private static func set(
        _ argument: inout rd_kafka_vu_t.__Unnamed_union_u, _ range: Range<Int>?, of bytes: UnsafeRawBufferPointer
    ) {
        unsafe argument.mem.ptr = unsafe UnsafeMutableRawPointer(mutating: start(of: range, in: bytes))
        unsafe argument.mem.size = range?.count ?? 0
    }

    /// Address of a part of the bytes; nil for null. Empty is not null: any address that is not null says so.
    private static func start(of range: Range<Int>?, in bytes: UnsafeRawBufferPointer) -> UnsafeRawPointer? {
        guard let range else { return nil }
        precondition(range.upperBound <= bytes.count)
        return unsafe bytes.baseAddress.map { unsafe $0 + range.lowerBound } ?? UnsafeRawPointer(bitPattern: 1)
    }

    private static func headers(_ message: KafkaMessage, in bytes: UnsafeRawBufferPointer) -> OpaquePointer? {
        guard message.headerCount > 0 else { return nil }
        let headers: OpaquePointer? = unsafe rd_kafka_headers_new(message.headerCount)
        KafkaBatch.forEachHeader(at: message.headersRange, in: message.bytes) { name, value in
            // librdkafka copies both.
            let text = unsafe start(of: name, in: bytes)?.assumingMemoryBound(to: CChar.self)
            _ = unsafe rd_kafka_header_add(
                headers, text, name.count, start(of: value, in: bytes), value?.count ?? 0)
        }
        return unsafe headers
    }
}
