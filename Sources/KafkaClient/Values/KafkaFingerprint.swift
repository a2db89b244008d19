/// Offset and hash of a message, by which a log is recognized: a log with another message there is another log, such as that
/// of a topic that was deleted and made anew.
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
