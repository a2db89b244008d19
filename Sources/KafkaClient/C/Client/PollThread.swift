internal import CRdKafka
internal import Dispatch
internal import Synchronization

#if canImport(Darwin)
internal import Darwin
#elseif canImport(Musl)
internal import Musl
#else
internal import Glibc
#endif

/// A thread of its own for calls that block; Swift's cooperative pool never runs them.
enum PollThread {
    /// Owned by the new thread, which releases it when it has begun.
    private final class Start {
        let name: String
        let body: @Sendable () -> Void

        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// Runs the body on a new, detached thread. At most 15 characters of the name are shown by tools.
    static func run(_ name: String, _ body: @escaping @Sendable () -> Void) throws(KafkaError) {
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        defer { unsafe pthread_attr_destroy(&attributes) }

        // Retained here; the thread takes the reference over.
        let start = unsafe Unmanaged.passRetained(Start(name: String(name.prefix(15)), body: body))
        #if canImport(Darwin)
        var thread: pthread_t?
        #else
        var thread = pthread_t()
        #endif
        let result = unsafe pthread_create(&thread, &attributes, { unsafe PollThread.main($0) }, start.toOpaque())
        guard result == 0 else {
            unsafe start.release()
            throw KafkaError(
                RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, message: "no thread could be started (errno \(result))",
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

    #if canImport(Darwin)
    private static func main(_ argument: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        let start = unsafe Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
        unsafe crdkafka_name_thread(start.name)
        start.body()
        return nil
    }
    #else
    private static func main(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        guard let argument = unsafe argument else { return nil }
        let start = unsafe Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
        unsafe crdkafka_name_thread(start.name)
        start.body()
        return nil
    }
    #endif
}

/// Wakes a poll thread wherever it waits: in librdkafka's poll, or in ``wait(until:)``.
///
/// `@unchecked Sendable`: the semaphore is made for this, and the queue pointer is used and freed under the mutex only.
final class Wakeup: @unchecked Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    private let isSignalled = Atomic(false)
    /// The queue that the thread polls: a reference of our own, freed by `close`.
    private let queue: Mutex<QueueReference>

    @safe private struct QueueReference: @unchecked Sendable {
        var pointer: OpaquePointer?
    }

    init(polling queue: OpaquePointer?) {
        self.queue = unsafe Mutex(QueueReference(pointer: queue))
    }

    /// Whether there is a signal that was not cleared: costs nothing to ask at each message.
    var isPending: Bool { isSignalled.load(ordering: .acquiring) }

    /// From any thread.
    func signal() {
        guard !isSignalled.exchange(true, ordering: .acquiringAndReleasing) else { return }
        semaphore.signal()
        queue.withLock { queue in
            if let pointer = unsafe queue.pointer { unsafe rd_kafka_queue_yield(pointer) }
        }
    }

    /// On the poll thread: forgets the signal, before it looks at what there is to do.
    func clear() {
        guard isSignalled.exchange(false, ordering: .acquiringAndReleasing) else { return }
        // Takes back the count that this signal has left, unless `wait` took it. Never blocks for longer than `signal`
        // needs between its two steps.
        semaphore.wait()
    }

    /// On the poll thread: waits for a signal at most so long. The signal stays until `clear`.
    func wait(atMost duration: Duration) {
        let (seconds, attoseconds) = duration.components
        let nanoseconds = min(seconds, 3600) * 1_000_000_000 + attoseconds / 1_000_000_000
        guard semaphore.wait(timeout: .now() + .nanoseconds(Int(max(nanoseconds, 0)))) == .success else { return }
        semaphore.signal()
    }

    /// On the poll thread, before the client is destroyed: no yield after this.
    func close() {
        queue.withLock { queue in
            if let pointer = unsafe queue.pointer { unsafe rd_kafka_queue_destroy(pointer) }
            unsafe queue.pointer = nil
        }
    }
}
