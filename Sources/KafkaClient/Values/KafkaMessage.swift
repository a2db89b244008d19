// SPDX-License-Identifier: Apache-2.0

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
///
/// One array holds its parts, so that a message is one allocation, however many headers it has.
package struct KafkaMessage: Hashable, Sendable {
    package var topic: String
    /// `nil`: by the hash of the key (consistent with other librdkafka clients), or any if there is no key.
    package var partition: Int32?
    /// Milliseconds since 1970; `nil` means the time of sending.
    package var timestampMilliseconds: Int64?

    /// Value, key and headers, one behind the other. A header has the lengths of its name and its value (-1 for null)
    /// as 32-bit little-endian integers in front of them.
    let bytes: [UInt8]
    /// `nil` for a null value.
    private let valueLength: Int?
    /// `nil` for a null key.
    private let keyLength: Int?
    let headerCount: Int

    /// - Parameters:
    ///   - bytes: value, key and headers, one behind the other. A header has the lengths of its name and its value (-1
    ///     for null) as 32-bit little-endian integers in front of them.
    ///   - valueLength: `nil` for a tombstone.
    ///   - keyLength: `nil` for a null key.
    package init(topic: String, bytes: [UInt8], valueLength: Int?, keyLength: Int?, headerCount: Int) {
        (self.topic, self.bytes, self.headerCount) = (topic, bytes, headerCount)
        (self.valueLength, self.keyLength) = (valueLength, keyLength)
        (partition, timestampMilliseconds) = (nil, nil)
    }

    /// - Parameters:
    ///   - partition: `nil`: by the hash of the key, or any if there is no key.
    ///   - value: `nil` is a tombstone: on a compacted topic it deletes the key.
    ///   - timestampMilliseconds: milliseconds since 1970; `nil` means the time of sending.
    package init(
        topic: String, partition: Int32? = nil, key: [UInt8]? = nil, value: [UInt8]?, headers: [KafkaHeader] = [],
        timestampMilliseconds: Int64? = nil
    ) {
        var bytes = value ?? []
        bytes += key ?? []
        for header in headers {
            KafkaBatch.appendHeaderLengths(name: header.name.utf8.count, value: header.value?.count, to: &bytes)
            bytes += header.name.utf8
            bytes += header.value ?? []
        }
        self.init(
            topic: topic, bytes: bytes, valueLength: value?.count, keyLength: key?.count, headerCount: headers.count)
        (self.partition, self.timestampMilliseconds) = (partition, timestampMilliseconds)
    }

    /// - Parameter headers: names and values.
    package init(
        topic: String, key: [UInt8]?, value: [UInt8]?, headers: some Sequence<(name: String, value: [UInt8])>
    ) {
        self.init(
            topic: topic, key: key, value: value, headers: headers.map { KafkaHeader(name: $0.name, value: $0.value) })
    }

    /// A copy of the value.
    package var value: [UInt8]? { valueRange.map { Array(bytes[$0]) } }
    /// A copy of the key.
    package var key: [UInt8]? { keyRange.map { Array(bytes[$0]) } }

    /// A copy of the headers.
    package var headers: [KafkaHeader] {
        var headers: [KafkaHeader] = []
        KafkaBatch.forEachHeader(at: headersRange, in: bytes) { name, value in
            headers.append(
                KafkaHeader(name: String(decoding: bytes[name], as: UTF8.self), value: value.map { Array(bytes[$0]) }))
        }
        return headers
    }

    /// The value's range in ``bytes``; `nil` for a null value.
    var valueRange: Range<Int>? { valueLength.map { 0..<$0 } }

    /// The key's range in ``bytes``; `nil` for a null key.
    var keyRange: Range<Int>? {
        let start = valueLength ?? 0
        return keyLength.map { start..<start + $0 }
    }

    var headersRange: Range<Int> { (valueLength ?? 0) + (keyLength ?? 0)..<bytes.count }

    /// Bytes that count towards the producer's bound: key, value and headers.
    var byteCount: Int { bytes.count - headerCount * KafkaBatch.headerPrefixLength }
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

/// A topic to create.
package struct KafkaTopicSpecification: Hashable, Sendable {
    package var name: String
    package var partitions: Int
    /// `nil`: the brokers' default.
    package var replicationFactor: Int?
    /// The topic's configuration by Kafka's names, such as `cleanup.policy`.
    package var configuration: [String: String]

    package init(
        name: String, partitions: Int, replicationFactor: Int? = nil, configuration: [String: String] = [:]
    ) {
        (self.name, self.partitions) = (name, partitions)
        (self.replicationFactor, self.configuration) = (replicationFactor, configuration)
    }

    /// The configuration of a topic that keeps the latest message of each key.
    package static let compacted = ["cleanup.policy": "compact"]
}

/// A topic with its partitions.
package struct KafkaTopicDescription: Hashable, Sendable {
    package struct Partition: Hashable, Sendable {
        package var id: Int32
        /// `nil` while there is none.
        package var leader: Int32?
        package var replicas: [Int32]
        package var inSyncReplicas: [Int32]
    }

    package var name: String
    /// By number.
    package var partitions: [Partition]

    package var places: [TopicPartition] { partitions.map { TopicPartition(topic: name, partition: $0.id) } }
}

/// One partition of a topic.
package struct TopicPartition: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var topic: String
    package var partition: Int32

    package init(topic: String, partition: Int32) {
        (self.topic, self.partition) = (topic, partition)
    }

    package var description: String { "\(topic)[\(partition)]" }

    /// By topic name, then by partition number.
    package static func < (left: Self, right: Self) -> Bool {
        (left.topic, left.partition) < (right.topic, right.partition)
    }
}

/// Start of reading in a partition.
package enum KafkaOffset: Hashable, Sendable {
    /// The oldest message that the log still has.
    case earliest
    /// Behind the newest message: only what is produced from now on.
    case latest
    /// Exactly this offset. If the log does not have it, the consumer reports
    /// ``KafkaConsumerEvent/offsetOutOfRange(_:offset:)`` and stays there.
    case at(Int64)
    /// At an offset behind a message that was read before. If the log has another message in its place, the consumer
    /// reports ``KafkaConsumerEvent/otherLog(_:offset:)`` and stays there; if it has none there any more, it goes on.
    case behind(KafkaFingerprint, next: Int64)
}

extension Sequence<TopicPartition> {
    /// The partitions for a log line, such as `pushes[0-2,5] widgets[0-7]`. Of a topic with many gaps, the first eight
    /// ranges.
    package var summary: String {
        Dictionary(grouping: self, by: \.topic).sorted { $0.key < $1.key }.map { topic, places in
            var ranges: [ClosedRange<Int32>] = []
            for partition in Set(places.map(\.partition)).sorted() {
                if let last = ranges.last, partition == last.upperBound + 1 {
                    ranges[ranges.count - 1] = last.lowerBound...partition
                } else {
                    ranges.append(partition...partition)
                }
            }
            var texts = ranges.prefix(8).map {
                $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)"
            }
            if ranges.count > 8 { texts.append("… \(places.count) in all") }
            return "\(topic)[\(texts.joined(separator: ","))]"
        }.joined(separator: " ")
    }
}

/// Offset and hash of a message, by which a log is recognized: a log with another message there is another log, such as
/// that of a topic that was deleted and made anew.
package struct KafkaFingerprint: Hashable, Sendable {
    package let offset: Int64
    package let hash: Int64

    package init(offset: Int64, hash: Int64) {
        (self.offset, self.hash) = (offset, hash)
    }
}

extension KafkaBatch {
    /// The message's fingerprint, which is the same in every process.
    package func fingerprint(_ index: Int) -> KafkaFingerprint {
        let record = records[index]
        // FNV-1a over time, lengths and content.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        func add(_ number: Int64) {
            for shift in stride(from: 0, to: 64, by: 8) {
                hash = (hash ^ UInt64(UInt8(truncatingIfNeeded: number >> Int64(shift)))) &* 0x100_0000_01b3
            }
        }
        add(record.timestampMilliseconds)
        add(Int64(record.keyLength))
        add(Int64(record.valueLength))
        for byte in bytes[Int(record.start)..<record.headersRange.upperBound] {
            hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        return KafkaFingerprint(offset: record.offset, hash: Int64(bitPattern: hash))
    }
}
