internal import CZlib

/// Compression in the gzip format (RFC 1952).
package enum Gzip {
    /// The bytes compressed, as one member; nil when zlib cannot, for want of memory.
    ///
    /// - Parameter level: 1 is quick, 9 is small.
    package static func compress(_ bytes: [UInt8], level: Int32 = 4) -> [UInt8]? {
        guard let length = UInt32(exactly: bytes.count) else { return nil }
        var stream = unsafe z_stream()
        guard unsafe freshet_gzip_init(&stream, level) == Z_OK else { return nil }
        defer { _ = unsafe deflateEnd(&stream) }
        let bound = Int(unsafe deflateBound(&stream, uLong(bytes.count)))
        guard let capacity = UInt32(exactly: bound) else { return nil }
        // zlib reads through a pointer that it does not declare to be constant.
        var input = bytes
        var isWhole = false
        let output = unsafe [UInt8](unsafeUninitializedCapacity: bound) { buffer, count in
            unsafe input.withUnsafeMutableBufferPointer { source in
                unsafe stream.next_in = source.baseAddress
                unsafe stream.avail_in = length
                unsafe stream.next_out = buffer.baseAddress
                unsafe stream.avail_out = capacity
                isWhole = unsafe deflate(&stream, Z_FINISH) == Z_STREAM_END
                count = unsafe bound - Int(stream.avail_out)
            }
        }
        return isWhole ? output : nil
    }
}
