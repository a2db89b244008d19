// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka

/// The producer's topic handles, made at the first use of a topic and freed with the producer; and the call that
/// produces. Used on the producer's thread only.
@safe struct TopicHandles {
    private var handles: [String: OpaquePointer] = unsafe [:]
    private var arguments: [rd_kafka_vu_t] = unsafe []

    /// Copies the message into librdkafka's queue; the delivery report will carry the tag.
    mutating func produce(_ message: KafkaMessage, tag: Int, with client: ClientHandle) throws(KafkaError) {
        let topic = unsafe try handle(message, client)
        let headers = unsafe Self.headers(message)
        let error = unsafe withOptionalBytes(message.key) { key in
            unsafe withOptionalBytes(message.value) { value in
                unsafe arguments.removeAll(keepingCapacity: true)
                unsafe add(RD_KAFKA_VTYPE_RKT) { unsafe $0.rkt = topic }
                unsafe add(RD_KAFKA_VTYPE_PARTITION) { unsafe $0.i32 = message.partition ?? -1 }
                unsafe add(RD_KAFKA_VTYPE_MSGFLAGS) { unsafe $0.i = RD_KAFKA_MSG_F_COPY }
                unsafe add(RD_KAFKA_VTYPE_OPAQUE) { unsafe $0.ptr = UnsafeMutableRawPointer(bitPattern: tag) }
                if let timestamp = message.timestampMilliseconds {
                    unsafe add(RD_KAFKA_VTYPE_TIMESTAMP) { unsafe $0.i64 = timestamp }
                }
                if let headers = unsafe headers { unsafe add(RD_KAFKA_VTYPE_HEADERS) { unsafe $0.headers = headers } }
                if let key = unsafe key {
                    unsafe add(RD_KAFKA_VTYPE_KEY) { unsafe Self.set(&$0, key) }
                }
                if let value = unsafe value {
                    unsafe add(RD_KAFKA_VTYPE_VALUE) { unsafe Self.set(&$0, value) }
                }
                return unsafe rd_kafka_produceva(client.pointer, arguments, arguments.count)
            }
        }
        // librdkafka takes the headers only if it takes the message.
        if unsafe error != nil, let headers = unsafe headers { unsafe rd_kafka_headers_destroy(headers) }
        let context = KafkaError.Context(operation: "produce", topic: message.topic, partition: message.partition)
        if let error = unsafe KafkaError(taking: error, context: context) { throw error }
    }

    /// Before the client is destroyed.
    mutating func destroy() {
        while let entry = unsafe handles.popFirst() { unsafe rd_kafka_topic_destroy(entry.value) }
    }

    private mutating func add(_ type: rd_kafka_vtype_t, _ set: (inout rd_kafka_vu_t.__Unnamed_union_u) -> Void) {
        var argument = unsafe rd_kafka_vu_t()
        unsafe argument.vtype = type
        unsafe set(&argument.u)
        unsafe arguments.append(argument)
    }

    private static func set(_ argument: inout rd_kafka_vu_t.__Unnamed_union_u, _ bytes: UnsafeRawBufferPointer) {
        // Empty is not null: any address that is not null says so.
        let start = unsafe bytes.baseAddress ?? UnsafeRawPointer(bitPattern: 1)
        unsafe argument.mem.ptr = UnsafeMutableRawPointer(mutating: start)
        unsafe argument.mem.size = bytes.count
    }

    private mutating func handle(_ message: KafkaMessage, _ client: ClientHandle) throws(KafkaError) -> OpaquePointer {
        if let handle = unsafe handles[message.topic] { return unsafe handle }
        guard let handle = unsafe rd_kafka_topic_new(client.pointer, message.topic, nil) else {
            throw KafkaError(
                rd_kafka_last_error(), context: KafkaError.Context(operation: "produce", topic: message.topic))
        }
        unsafe handles[message.topic] = handle
        return unsafe handle
    }

    private static func headers(_ message: KafkaMessage) -> OpaquePointer? {
        guard !message.headers.isEmpty else { return nil }
        let headers: OpaquePointer? = unsafe rd_kafka_headers_new(message.headers.count)
        for header in message.headers {
            unsafe withOptionalBytes(header.value) { value in
                let start = unsafe value.map { unsafe $0.baseAddress ?? UnsafeRawPointer(bitPattern: 1)! }
                _ = unsafe rd_kafka_header_add(headers, header.name, -1, start, value?.count ?? 0)
            }
        }
        return unsafe headers
    }
}
