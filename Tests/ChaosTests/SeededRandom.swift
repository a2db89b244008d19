// SPDX-License-Identifier: Apache-2.0

import Randomness

/// Source of all random decisions in a run, as a function of its seed. Each part of the suite has its own stream, so
/// that its draws do not shift those of others.
struct SeededRandom: RandomNumberGenerator, Sendable {
    private var generator: SeededGenerator

    init(seed: UInt64, stream: String) {
        // FNV-1a of the stream's name.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in stream.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        generator = SeededGenerator(seed: seed &* 0x9e37_79b9_7f4a_7c15 ^ hash)
    }

    mutating func next() -> UInt64 { generator.next() }

    mutating func integer(_ range: Range<Int>) -> Int { Int.random(in: range, using: &self) }
    mutating func integer(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }
    mutating func chance(_ probability: Double) -> Bool { Double.random(in: 0..<1, using: &self) < probability }

    mutating func seconds(_ range: ClosedRange<Double>) -> Duration {
        .milliseconds(Int64(Double.random(in: range, using: &self) * 1_000))
    }

    mutating func element<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &self)]
    }

    /// Returns an element with a probability in proportion to its weight.
    mutating func element<Element>(weighted elements: [(element: Element, weight: Int)]) -> Element {
        var left = Int.random(in: 0..<elements.reduce(0) { $0 + $1.weight }, using: &self)
        for (element, weight) in elements {
            if left < weight { return element }
            left -= weight
        }
        return elements[elements.count - 1].element
    }
}
