import Foundation

/// A value that one thread at a time sees.
///
/// `Synchronization.Mutex` would do, were it not that the thread sanitizer does not see its slow path on Linux (the
/// kernel hands the lock over, in code that is not instrumented), and reports every contended use as a race.
///
/// `@unchecked Sendable`: the value is only touched under the mutex, which lives in memory of its own, made and freed here.
@safe
package final class Locked<Value: Sendable>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var value: Value

    package init(_ value: Value) {
        unsafe self.mutex = .allocate(capacity: 1)
        self.value = value
        unsafe mutex.initialize(to: pthread_mutex_t())
        unsafe pthread_mutex_init(mutex, nil)
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deinitialize(count: 1)
        unsafe mutex.deallocate()
    }

    /// Lends the value. Keep it short, and never wait inside.
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
