import Synchronization

/// Whether batches may be applied in one round trip, which fails when an audience is too large: not for a while after one
/// was, since whoever asks for such an audience once asks for it again.
final class LargeAudiences: Sendable {
    /// How many transactions go the long way after one.
    static let transactions = 200

    private let left = Atomic(0)

    /// Asked once by each transaction.
    var areRare: Bool {
        let now = left.load(ordering: .relaxed)
        guard now > 0 else { return true }
        // Whether two count as one does not matter.
        left.store(now - 1, ordering: .relaxed)
        return false
    }

    func met() {
        left.store(Self.transactions, ordering: .relaxed)
    }
}
