/// Limits of the pushes to one device.
package struct DeliveryPolicy: Hashable, Sendable {
    /// Time for which further changes of a device's widgets are gathered, and least time between any two pushes.
    package var window = Duration.seconds(2)
    /// Least time between two pushes to a device. Changes that a person waits for are exempt, as from the budget.
    package var minimumSpacing = Duration.seconds(15)
    /// Pushes to a device in any 24 hours.
    package var dailyBudget = 240
    /// Delays between attempts for a device that could not be notified.
    package var backoff = Backoff(base: .seconds(2), cap: .seconds(3_600))

    package init() {}

    /// Records a push, and returns the earliest time of the next one that is not exempt.
    package func nextPush(after time: Timestamp, spending ledger: inout BudgetLedger) -> Timestamp {
        ledger.spend(of: dailyBudget, at: time)
        return ledger.available(of: dailyBudget, from: time + minimumSpacing)
    }
}

/// Verdict of an attempt to notify a device.
package enum DeliveryVerdict: Hashable, Sendable {
    /// The channel has taken the push.
    case accepted
    /// The device has fetched the changes already, so that nothing is sent.
    case fetchedAlready
    /// The device is tried again, after its own back-off or the delay that the channel asked for.
    case retry(after: Duration?)
    /// The channel takes nothing at present: everything that goes the same way waits.
    case rest(after: Duration?)
    /// The token is dead: it is forgotten, unless the device was registered later than this.
    case forget(since: Timestamp?)
}
