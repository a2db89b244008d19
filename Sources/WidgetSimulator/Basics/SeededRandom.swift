internal import Randomness

extension SeededGenerator {
    /// The numbers of one of many people.
    init(seed: UInt64, stream: Int) {
        self.init(seed: seed &* 0xD134_2543_DE82_EF95 &+ UInt64(bitPattern: Int64(stream)) &* 0x2545_F491_4F6C_DD1D)
        self.init(seed: next())
    }

    mutating func chance(_ probability: Double) -> Bool {
        Double(next() >> 11) / Double(UInt64(1) << 53) < probability
    }

    /// A random number with a mean, of `tries` attempts.
    mutating func count(mean: Double, tries: Int = 16) -> Int {
        (0..<tries).reduce(0) { sum, _ in sum + (chance(mean / Double(tries)) ? 1 : 0) }
    }
}
