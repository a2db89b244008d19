import PostgresClient
import Synchronization

/// Whether transactions lock all that they will write in one order before they write (``LockMarked``): for a while after
/// a deadlock, since whoever meets another process once meets it again, and every deadlock costs the server's
/// `deadlock_timeout` (a second, by default) and the work of one batch.
///
/// A statement that marks locks in one order by itself, as long as the server looks its rows up one after the other; with
/// lifecycle events or views in the same transaction there are several statements.
final class LockOrder: Sendable {
    /// How many transactions lock first after a deadlock.
    static let transactions = 1_000

    private let left = Atomic(0)

    /// Looks at what a transaction ended with.
    func note(_ error: any Error) {
        guard let error = error as? PostgresError, error.sqlState == "40P01" else { return }
        left.store(Self.transactions, ordering: .relaxed)
    }

    /// Asked once by each transaction.
    func isWanted() -> Bool {
        let now = left.load(ordering: .relaxed)
        guard now > 0 else { return false }
        // Whether two count as one does not matter.
        left.store(now - 1, ordering: .relaxed)
        return true
    }
}
