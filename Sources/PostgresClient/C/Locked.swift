import Foundation

/// A value that one thread at a time sees.
///
/// `Synchronization.Mutex` would do, were it not that the thread sanitizer does not see its slow path on Linux (the
/// kernel hands the lock over, in code that is not instrumented), and reports every contended use as a race.
///
/// `@unchecked Sendable`: the value is only touched under the lock.
package final class Locked<Value: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    package init(_ value: Value) {
        self.value = value
    }

    /// Lends the value. Keep it short, and never wait inside.
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
