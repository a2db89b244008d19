import Synchronization

/// A number for each content that grows with every fetch, in a fixed amount of memory for any number of contents.
///
/// Contents that share a counter make each other's numbers skip; they never make one repeat, so that a fetch always
/// shows.
final class RevisionCounters: Sendable {
    private let counters: Mutex<[UInt32]>
    private let mask: UInt64

    /// - Parameter bits: 2^bits counters, of four bytes each.
    init(bits: Int) {
        mask = (1 << UInt64(bits)) - 1
        counters = Mutex([UInt32](repeating: 0, count: 1 << bits))
    }

    /// The next number of each content, from 1.
    func next(of identities: some Collection<UInt64>) -> [Int] {
        counters.withLock { counters in
            identities.map { identity in
                let index = Int(identity & mask)
                counters[index] &+= 1
                return Int(counters[index])
            }
        }
    }
}
