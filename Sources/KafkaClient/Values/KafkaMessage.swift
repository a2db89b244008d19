/// A message header. Kafka allows repeated names and null values.
package struct KafkaHeader: Hashable, Sendable {
    package var name: String
    package var value: [UInt8]?

    package init(name: String, value: [UInt8]?) {
        self.name = name
        self.value = value
    }

    package init(name: String, value: String) {
        self.init(name: name, value: Array(value.utf8))
    }
}

/// A message to produce.
package struct KafkaMessage: Hashable, Sendable {
    package var topic: String
    /// `nil`: by the hash of the key (consistent with other librdkafka clients), or any if there is no key.
    package var partition: Int32?
    package var key: [UInt8]?
    /// `nil` is a tombstone: on a compacted topic it deletes the key.
    package var value: [UInt8]?
    package var headers: [KafkaHeader]
    /// Milliseconds since 1970; `nil` means the time of sending.
    package var timestampMilliseconds: Int64?

    package init(
        topic: String, partition: Int32? = nil, key: [UInt8]? = nil, value: [UInt8]?, headers: [KafkaHeader] = [],
        timestampMilliseconds: Int64? = nil
    ) {
        (self.topic, self.partition, self.key) = (topic, partition, key)
        (self.value, self.headers, self.timestampMilliseconds) = (value, headers, timestampMilliseconds)
    }

    /// - Parameter headers: names and values.
    package init(
        topic: String, key: [UInt8]?, value: [UInt8]?, headers: some Sequence<(name: String, value: [UInt8])>
    ) {
        self.init(
            topic: topic, key: key, value: value, headers: headers.map { KafkaHeader(name: $0.name, value: $0.value) })
    }

    /// Bytes that count towards the producer's bound: key, value and headers.
    var byteCount: Int {
        var count = (key?.count ?? 0) + (value?.count ?? 0)
        for header in headers { count += header.name.utf8.count + (header.value?.count ?? 0) }
        return count
    }
}

/// Position of a stored message.
package struct KafkaDelivery: Hashable, Sendable {
    package var partition: Int32
    /// Nil in rare cases: the answer was lost, and a later answer, or the broker's recognition of the retry, shows that
    /// the message is stored.
    package var offset: Int64?

    package init(partition: Int32, offset: Int64?) {
        self.partition = partition
        self.offset = offset
    }
}

/// A producer's queues at one moment.
package struct KafkaProducerDepth: Hashable, Sendable {
    /// Messages handed over and not confirmed.
    package var messagesInFlight = 0
    package var bytesInFlight = 0
    /// Messages whose senders wait for room.
    package var messagesWaiting = 0
}
