/// A message to produce, in binary mode.
package struct EncodedEvent: Sendable {
    /// Partition and compaction key.
    package var key: [UInt8]
    package var headers: [(name: String, value: [UInt8])]
    /// Nil for a tombstone.
    package var value: [UInt8]?
}
