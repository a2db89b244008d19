// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka
internal import Dispatch
internal import Synchronization
internal import Waiting

/// Threads for librdkafka's blocking calls.
enum PollThread {
    /// Runs the body on a new, detached thread.
    static func run(_ name: String, _ body: @escaping @Sendable () -> Void) throws(KafkaError) {
        do throws(BlockingThread.Failure) {
            try BlockingThread.run(name, body)
        } catch {
            throw KafkaError(
                RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE,
                message: "no thread could be started (errno \(error.errorNumber))",
                context: KafkaError.Context(operation: "start \(name)"))
        }
    }

    /// Runs the body on a new thread and waits, suspended, for its result. The body calls `answer` once.
    static func perform<Value: Sendable>(
        _ name: String, _ body: @escaping @Sendable (_ answer: (Result<Value, KafkaError>) -> Void) -> Void
    ) async throws(KafkaError) -> Value {
        let result = await withCheckedContinuation {
            (continuation: CheckedContinuation<Result<Value, KafkaError>, Never>) in
            do throws(KafkaError) {
                try run(name) { body { continuation.resume(returning: $0) } }
            } catch {
                continuation.resume(returning: .failure(error))
            }
        }
        return try result.get()
    }
}

/// Wakes a poll thread that waits in librdkafka's poll or in ``wait(atMost:)``.
///
/// `@unchecked Sendable`: the semaphore is thread-safe, and the queue pointer is used and freed only under the mutex.
@safe final class Wakeup: @unchecked Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    private let isSignalled = Atomic(false)
    /// Reference to the queue that the thread polls, freed by `close`.
    private let queue: Mutex<OpaquePointer?>

    init(polling queue: sending OpaquePointer?) {
        unsafe self.queue = unsafe Mutex(queue)
    }

    /// Whether a signal has not been cleared yet. Cheap enough to check for each message.
    var isPending: Bool { isSignalled.load(ordering: .acquiring) }

    /// Signals the thread. Any thread may call it.
    func signal() {
        guard !isSignalled.exchange(true, ordering: .acquiringAndReleasing) else { return }
        semaphore.signal()
        unsafe queue.withLock { queue in
            if let queue = unsafe queue { unsafe rd_kafka_queue_yield(queue) }
        }
    }

    /// Clears the signal. The poll thread calls it before it looks for commands.
    func clear() {
        guard isSignalled.exchange(false, ordering: .acquiringAndReleasing) else { return }
        // Takes back the count that `signal` added. Blocks at most for the time between the two steps of `signal`.
        semaphore.wait()
    }

    /// Waits on the poll thread for a signal, at most for a duration. The signal stays until `clear`.
    func wait(atMost duration: Duration) {
        let (seconds, attoseconds) = duration.components
        let nanoseconds = min(seconds, 3600) * 1_000_000_000 + attoseconds / 1_000_000_000
        guard semaphore.wait(timeout: .now() + .nanoseconds(Int(max(nanoseconds, 0)))) == .success else { return }
        semaphore.signal()
    }

    /// Frees the queue reference. The poll thread calls it before the client is destroyed. Later signals do not touch
    /// the queue.
    func close() {
        unsafe queue.withLock { queue in
            if let queue = unsafe queue { unsafe rd_kafka_queue_destroy(queue) }
            unsafe queue = nil
        }
    }
}
