/// Writes binary values into memory that its maker has sized for exactly them.
///
/// Lives only inside `withUnsafeMutableBytes` of the buffer that it fills; writing beyond that buffer traps.
@safe
@usableFromInline
package struct PostgresWriter: ~Copyable {
    @usableFromInline let base: UnsafeMutableRawPointer
    @usableFromInline let count: Int
    @usableFromInline var offset: Int

    @inlinable
    init(_ buffer: UnsafeMutableRawBufferPointer, at offset: Int) {
        // An empty buffer has no address, and nothing is written to it.
        unsafe self.base = buffer.baseAddress ?? UnsafeMutableRawPointer(bitPattern: 1).unsafelyUnwrapped
        self.count = buffer.count
        self.offset = offset
    }

    /// Writes an integer, big-endian.
    @inlinable
    package mutating func write<Value: FixedWidthInteger & BitwiseCopyable>(_ value: Value) {
        let size = MemoryLayout<Value>.size
        precondition(size <= count - offset, "a value wrote more than its postgresByteCount")
        unsafe base.storeBytes(of: value.bigEndian, toByteOffset: offset, as: Value.self)
        offset += size
    }

    /// Writes bytes as they are.
    @inlinable
    package mutating func write(bytes: RawSpan) {
        precondition(bytes.byteCount <= count - offset, "a value wrote more than its postgresByteCount")
        unsafe bytes.withUnsafeBytes { source in
            guard let address = source.baseAddress else { return }
            unsafe base.advanced(by: offset).copyMemory(from: address, byteCount: source.count)
        }
        offset += bytes.byteCount
    }

    /// Writes what PostgreSQL puts before each value: its size.
    @inlinable
    mutating func writeCount(_ count: Int) { write(Int32(truncatingIfNeeded: count)) }
}

extension RawSpan {
    /// The big-endian integer at `offset`; the span must hold it.
    @inlinable
    func postgresInteger<Value: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int = 0, as type: Value.Type = Value.self
    ) -> Value {
        unsafe Value(bigEndian: unsafeLoadUnaligned(fromByteOffset: offset, as: Value.self))
    }
}
