/// Writes binary values into memory of exactly their size.
///
/// Lives only inside ``Swift/Array/appendBinary(_:_:)``, whose array owns the memory; writing beyond it traps.
@usableFromInline
@safe
package struct PostgresWriter: ~Copyable {
    @usableFromInline let base: UnsafeMutableRawPointer
    @usableFromInline let count: Int
    @usableFromInline var offset = 0

    @inlinable
    init(_ buffer: UnsafeMutableBufferPointer<UInt8>) {
        // An empty buffer may have no address, and nothing is written to it.
        let address = unsafe buffer.baseAddress.map { UnsafeMutableRawPointer($0) }
        unsafe self.base = unsafe address ?? UnsafeMutableRawPointer(bitPattern: 1).unsafelyUnwrapped
        self.count = buffer.count
    }

    @inlinable
    package mutating func write<Value: FixedWidthInteger & BitwiseCopyable>(_ value: Value) {
        let size = MemoryLayout<Value>.size
        precondition(size <= count - offset, "a value wrote more than its postgresByteCount")
        unsafe base.storeBytes(of: value.bigEndian, toByteOffset: offset, as: Value.self)
        offset += size
    }

    @inlinable
    package mutating func write(_ bytes: [UInt8]) {
        unsafe bytes.withUnsafeBytes { unsafe copy($0) }
    }

    @inlinable
    package mutating func write(_ text: String) {
        // Only strings bridged from Objective-C are not in UTF-8.
        let isWritten: Void? = unsafe text.utf8.withContiguousStorageIfAvailable { utf8 in
            unsafe copy(UnsafeRawBufferPointer(utf8))
        }
        if isWritten == nil { write(Array(text.utf8)) }
    }

    /// Writes a value's size, which precedes it.
    @inlinable
    mutating func writeCount(_ count: Int) { write(Int32(truncatingIfNeeded: count)) }

    @inlinable
    mutating func copy(_ source: UnsafeRawBufferPointer) {
        precondition(source.count <= count - offset, "a value wrote more than its postgresByteCount")
        guard let address = source.baseAddress else { return }
        unsafe base.advanced(by: offset).copyMemory(from: address, byteCount: source.count)
        offset += source.count
    }
}

extension [UInt8] {
    /// Appends `count` bytes, all of which `encode` writes, in place.
    @inlinable
    mutating func appendBinary(_ count: Int, _ encode: (inout PostgresWriter) -> Void) {
        append(addingCapacity: count) { span in
            unsafe span.withUnsafeMutableBufferPointer { buffer, initializedCount in
                var writer = unsafe PostgresWriter(buffer)
                encode(&writer)
                precondition(writer.offset == count, "a value wrote less than its postgresByteCount")
                initializedCount = count
            }
        }
    }
}

extension RawSpan {
    /// The big-endian integer at `offset`; the span must hold it.
    @inlinable
    package func postgresInteger<Value: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int = 0, as type: Value.Type = Value.self
    ) -> Value {
        unsafe Value(bigEndian: unsafeLoadUnaligned(fromByteOffset: offset, as: Value.self))
    }
}
