internal import Synchronization

/// Between the poll thread, which pushes, and the one receiver, which takes: in order, and bounded by the poll thread,
/// which looks at ``pendingBatches`` before it adds to it.
final class ConsumerEventBuffer: Sendable {
    typealias Outcome = Result<KafkaConsumerEvent?, KafkaError>

    private let state = Mutex(State<CheckedContinuation<Outcome, Never>>())
    /// Mirrors the state's number, so that the poll thread can look without taking the lock.
    private let batches = Atomic(0)
    private let onChange: @Sendable () -> Void

    /// - Parameter onChange: called when the receiver has taken a batch, or has gone: the poll thread may go on.
    init(onChange: @escaping @Sendable () -> Void) {
        self.onChange = onChange
    }

    var pendingBatches: Int { batches.load(ordering: .acquiring) }

    /// Whether somebody iterates: nobody else could acknowledge a revocation.
    var hasReceiver: Bool { state.withLock { $0.receivers > 0 } }

    func push(_ event: KafkaConsumerEvent) {
        perform { $0.push(event) }
    }

    /// Ends the sequence behind what is in the buffer.
    func finish(throwing error: KafkaError? = nil) {
        perform { $0.finish(error) }
    }

    /// Ends the sequence at once; what is in the buffer is lost.
    func discard() {
        perform { state in
            state.events.removeAll()
            state.batches = 0
            return state.finish(nil)
        }
    }

    /// Takes the records of these partitions out of the batches that wait.
    func remove(_ places: Set<TopicPartition>) {
        perform { state in
            state.remove(places)
            return .none
        }
    }

    func attach() { state.withLock { $0.receivers += 1 } }

    func detach() {
        state.withLock { $0.receivers -= 1 }
        onChange()
    }

    /// The next event; nil at the end, or when the task is cancelled.
    func next(isolation: isolated (any Actor)?) async throws(KafkaError) -> KafkaConsumerEvent? {
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation(isolation: isolation) { continuation in
                perform { $0.take(continuation) }
                // The handler below may have run before there was anything for it to resume.
                if Task.isCancelled { perform { $0.cancelWaiter() } }
            }
        } onCancel: {
            perform { $0.cancelWaiter() }
        }
        if case .success(.batch) = outcome { onChange() }
        return try outcome.get()
    }

    private func perform(
        _ transition: (inout State<CheckedContinuation<Outcome, Never>>) ->
            State<CheckedContinuation<Outcome, Never>>.Action
    ) {
        let action = state.withLock { state in
            let action = transition(&state)
            batches.store(state.batches, ordering: .releasing)
            return action
        }
        // After the lock is released: resuming may run the receiver.
        if case .resume(let waiter, let outcome) = action { waiter.resume(returning: outcome) }
    }
}

extension ConsumerEventBuffer {
    /// The transitions, free of threads and tasks. A waiter is whatever stands for a suspended receiver.
    struct State<Waiter> {
        enum Action {
            case none
            case resume(Waiter, Outcome)
        }

        /// Errors are for information: of a flood of them the receiver gets these many, and all are logged.
        static var maximumErrors: Int { 16 }

        var events: [KafkaConsumerEvent] = []
        var batches = 0
        var receivers = 0
        private var errors = 0
        private var waiter: Waiter?
        private var end: Result<Void, KafkaError>?

        mutating func push(_ event: KafkaConsumerEvent) -> Action {
            guard end == nil else { return .none }
            if let waiter {
                self.waiter = nil
                return .resume(waiter, .success(event))
            }
            switch event {
            case .batch:
                batches += 1
            case .error:
                guard errors < Self.maximumErrors else { return .none }
                errors += 1
            case .assigned, .revoked, .offsetOutOfRange:
                break
            }
            events.append(event)
            return .none
        }

        mutating func take(_ newcomer: Waiter) -> Action {
            guard waiter == nil else {
                let error = KafkaError(
                    code: .invalidState, message: "the events have one receiver, and it is waiting already",
                    isRetriable: false, context: KafkaError.Context(operation: "receive"))
                return .resume(newcomer, .failure(error))
            }
            guard events.isEmpty else {
                let event = events.removeFirst()
                if case .batch = event { batches -= 1 }
                if case .error = event { errors -= 1 }
                return .resume(newcomer, .success(event))
            }
            guard let end else {
                waiter = newcomer
                return .none
            }
            // The error is thrown once; after it the sequence is over.
            self.end = .success(())
            return .resume(newcomer, end.map { nil })
        }

        mutating func cancelWaiter() -> Action {
            guard let waiter else { return .none }
            self.waiter = nil
            return .resume(waiter, .success(nil))
        }

        mutating func finish(_ error: KafkaError?) -> Action {
            guard end == nil else { return .none }
            if let waiter {
                self.waiter = nil
                end = .success(())
                return .resume(waiter, error.map { .failure($0) } ?? .success(nil))
            }
            end = error.map { .failure($0) } ?? .success(())
            return .none
        }

        mutating func remove(_ places: Set<TopicPartition>) {
            events = events.compactMap { event in
                switch event {
                case .batch(var batch):
                    batch.remove(places)
                    return batch.isEmpty ? nil : .batch(batch)
                case .offsetOutOfRange(let place, _):
                    return places.contains(place) ? nil : event
                case .assigned, .revoked, .error:
                    return event
                }
            }
            batches = events.count { if case .batch = $0 { true } else { false } }
        }
    }
}

/// The events of a consumer. One task iterates at a time; cancelling it ends its iteration, and another may go on.
package struct KafkaConsumerEvents: AsyncSequence, Sendable {
    package typealias Element = KafkaConsumerEvent
    package typealias Failure = KafkaError

    let buffer: ConsumerEventBuffer

    package func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(receiver: Receiver(buffer))
    }

    package struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let receiver: Receiver

        package mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(KafkaError) -> KafkaConsumerEvent? {
            try await receiver.buffer.next(isolation: actor)
        }
    }

    /// While it lives, somebody iterates.
    fileprivate final class Receiver {
        let buffer: ConsumerEventBuffer

        init(_ buffer: ConsumerEventBuffer) {
            self.buffer = buffer
            buffer.attach()
        }

        deinit { buffer.detach() }
    }
}
