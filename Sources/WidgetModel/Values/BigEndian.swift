extension [UInt8] {
    /// Appends the lowest bytes of a number, the highest of them first.
    mutating func append(_ number: UInt64, bytes count: Int) {
        for position in (0..<count).reversed() { append(UInt8(truncatingIfNeeded: number >> UInt64(8 * position))) }
    }
}

extension UInt64 {
    /// The number of some bytes, at most eight, with the highest first.
    init(bytes: some Sequence<UInt8>) { self = bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}
