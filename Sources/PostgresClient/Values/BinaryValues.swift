extension [UInt8] {
    /// Appends an integer in network byte order.
    @inlinable
    mutating func append<Value: FixedWidthInteger & BitwiseCopyable>(integer value: Value) {
        let size = MemoryLayout<Value>.size
        append(addingCapacity: size) { span in
            unsafe span.withUnsafeMutableBufferPointer { buffer, initializedCount in
                unsafe UnsafeMutableRawBufferPointer(buffer).storeBytes(of: value.bigEndian, as: Value.self)
                initializedCount = size
            }
        }
    }

    /// Appends a one-dimensional array in PostgreSQL's binary form; nil is NULL.
    @inlinable
    mutating func append<Value: PostgresValue>(
        arrayOf length: Int, _ element: (Int) -> Value?
    ) throws(PostgresError) {
        // Makes room for the likely size at once.
        append(addingCapacity: 20 + length * (4 + MemoryLayout<Value>.size)) { _ in }
        append(integer: Int32(length == 0 ? 0 : 1))
        let flags = count
        append(integer: Int32(0))
        append(integer: Value.postgresType.oid)
        guard length > 0 else { return }
        append(integer: Int32(truncatingIfNeeded: length))
        append(integer: Int32(1))
        for index in 0..<length {
            let start = count
            // The size, or -1 for NULL.
            append(integer: Int32(-1))
            guard let value = element(index) else {
                set(Int32(1), at: flags)
                continue
            }
            try value.encode(into: &self)
            try PostgresParameters.checkSize(count)
            set(Int32(truncatingIfNeeded: count - start - 4), at: start)
        }
    }

    @inlinable
    mutating func set(_ value: Int32, at offset: Int) {
        unsafe withUnsafeMutableBytes { bytes in
            unsafe bytes.storeBytes(of: value.bigEndian, toByteOffset: offset, as: Int32.self)
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
