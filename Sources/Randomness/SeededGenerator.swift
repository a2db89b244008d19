// SPDX-License-Identifier: Apache-2.0

/// SplitMix64: equal seeds give equal numbers on every platform.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    @usableFromInline package var state: UInt64

    @inlinable
    package init(seed: UInt64) {
        state = seed
    }

    @inlinable
    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return Self.mix(state)
    }

    /// Spreads the bits of a word over all 64.
    @inlinable
    package static func mix(_ word: UInt64) -> UInt64 {
        var word = word
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }

    /// Returns a number below `bound`, which must be positive. The distribution is not exactly uniform.
    @inlinable
    package mutating func below(_ bound: Int) -> Int {
        Int(next().multipliedFullWidth(by: UInt64(bound)).high)
    }

    /// Returns a number from 0 to below 1, of 53 bits: the standard library's algorithm may change, and a seed must
    /// give the same stream always.
    @inlinable
    package mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

    @inlinable
    package mutating func byte() -> UInt8 { UInt8(truncatingIfNeeded: next() >> 32) }

    @inlinable
    package mutating func chance(_ part: Int, of whole: Int) -> Bool { below(whole) < part }
}
