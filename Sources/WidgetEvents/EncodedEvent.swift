/// A message to produce, in binary mode.
package struct EncodedEvent: Sendable {
    /// What the partition is chosen by, and what a compacted topic keeps one message for.
    package var key: [UInt8]
    package var headers: [(name: String, value: [UInt8])]
    /// Nil for a tombstone.
    package var value: [UInt8]?
}
