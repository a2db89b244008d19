// SPDX-License-Identifier: Apache-2.0

/// SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein).
///
/// Without a secret key, collisions can be searched for: only for bytes whose author gains nothing by one.
struct SipHash {
    private var state: State
    /// Number of bytes, and those that do not fill a word yet, the first one lowest.
    private var count = 0
    private var tail: UInt64 = 0

    init(key: (UInt64, UInt64) = (0, 0)) {
        state = State(key)
    }

    mutating func combine(_ bytes: ArraySlice<UInt8>) {
        let bytes = bytes.span
        // Number of the tail's bytes.
        let begun = count & 7
        count &+= bytes.count
        guard bytes.count >= 8 else { return combineFew(bytes, begun) }
        /// - Parameter index: at least 8 below the number of bytes.
        func word(_ index: Int) -> UInt64 {
            unsafe UInt64(
                littleEndian: bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self))
        }
        // A local copy stays in registers.
        var state = state
        var index = 0
        if begun > 0 {
            state.compress(tail | word(0) &<< UInt64(8 &* begun))
            index = 8 &- begun
        }
        while index &+ 8 <= bytes.count {
            state.compress(word(index))
            index &+= 8
        }
        let rest = bytes.count &- index
        tail = rest == 0 ? 0 : word(bytes.count &- 8) &>> UInt64(64 &- 8 &* rest)
        self.state = state
    }

    /// Combines fewer than eight bytes.
    private mutating func combineFew(_ bytes: Span<UInt8>, _ begun: Int) {
        var begun = begun
        for index in bytes.indices {
            tail |= UInt64(bytes[index]) &<< UInt64(8 &* begun)
            begun &+= 1
            guard begun == 8 else { continue }
            state.compress(tail)
            (tail, begun) = (0, 0)
        }
    }

    /// The first and the last eight bytes of the result, little-endian.
    consuming func finalize() -> (UInt64, UInt64) {
        state.compress(tail | UInt64(truncatingIfNeeded: count) &<< 56)
        state.v2 ^= 0xEE
        for _ in 0..<4 { state.round() }
        let first = state.result
        state.v1 ^= 0xDD
        for _ in 0..<4 { state.round() }
        return (first, state.result)
    }

    private struct State {
        var v0: UInt64, v1: UInt64, v2: UInt64, v3: UInt64

        init(_ key: (UInt64, UInt64)) {
            (v0, v1) = (key.0 ^ 0x736f_6d65_7073_6575, key.1 ^ 0x646f_7261_6e64_6f6d ^ 0xEE)
            (v2, v3) = (key.0 ^ 0x6c79_6765_6e65_7261, key.1 ^ 0x7465_6462_7974_6573)
        }

        var result: UInt64 { v0 ^ v1 ^ v2 ^ v3 }

        @inline(__always)
        mutating func compress(_ word: UInt64) {
            v3 ^= word
            round()
            round()
            v0 ^= word
        }

        @inline(__always)
        mutating func round() {
            v0 &+= v1
            v1 = rotated(v1, 13) ^ v0
            v0 = rotated(v0, 32)
            v2 &+= v3
            v3 = rotated(v3, 16) ^ v2
            v0 &+= v3
            v3 = rotated(v3, 21) ^ v0
            v2 &+= v1
            v1 = rotated(v1, 17) ^ v2
            v2 = rotated(v2, 32)
        }

        @inline(__always)
        private func rotated(_ word: UInt64, _ bits: UInt64) -> UInt64 { word &<< bits | word &>> (64 &- bits) }
    }
}
