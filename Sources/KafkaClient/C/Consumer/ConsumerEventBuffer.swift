internal import Synchronization

/// Queue of events between the poll thread, which gathers messages, and the one receiver. The poll thread bounds it: it
/// checks ``pendingBatches`` before it adds a batch.
///
/// The receiver takes the messages gathered so far by itself: batches grow while it is busy, and no thread is woken for
/// them.
final class ConsumerEventBuffer: Sendable {
    typealias Outcome = Result<KafkaConsumerEvent?, KafkaError>

    private struct Shared {
        var state = State<CheckedContinuation<Outcome, Never>>()
        /// Behind all events.
        var gathering: BatchGathering
    }

    private let shared: Mutex<Shared>
    // Mirror the state for the poll thread, without the lock.
    private let batches = Atomic(0)
    private let hasWaiter = Atomic(false)
    private let hasGathered = Atomic(false)
    private let isRoomWanted = Atomic(false)
    private let onRoom: @Sendable () -> Void

    /// - Parameters:
    ///   - onRoom: called when the receiver has taken a batch and ``wantsRoom`` is set.
    init(gathering: sending BatchGathering, onRoom: @escaping @Sendable () -> Void) {
        shared = Mutex(Shared(gathering: gathering))
        self.onRoom = onRoom
    }

    var pendingBatches: Int { batches.load(ordering: .acquiring) }

    /// Whether the receiver waits and messages are gathered.
    var owesBatch: Bool { hasGathered.load(ordering: .acquiring) && hasWaiter.load(ordering: .acquiring) }

    var isEmpty: Bool { !hasGathered.load(ordering: .acquiring) }

    /// Whether the poll thread waits until the receiver takes a batch.
    var wantsRoom: Bool {
        get { isRoomWanted.load(ordering: .sequentiallyConsistent) }
        set { isRoomWanted.store(newValue, ordering: .sequentiallyConsistent) }
    }

    /// Number of messages and batches handed over.
    var counts: (messages: Int64, batches: Int64) {
        shared.withLock { ($0.gathering.messages, $0.gathering.batches) }
    }

    // MARK: The poll thread

    /// Adds to the next batch; answers whether that is full.
    func gather(_ body: (inout BatchGathering) -> Void) -> Bool {
        shared.withLock { shared in
            body(&shared.gathering)
            hasGathered.store(!shared.gathering.isEmpty, ordering: .releasing)
            return shared.gathering.isFull
        }
    }

    var isFull: Bool { shared.withLock { $0.gathering.isFull } }

    /// Appends the gathered batch to the events.
    func flush() {
        perform { shared in
            guard let batch = shared.gathering.take() else { return .none }
            return shared.state.push(.batch(batch))
        }
    }

    func push(_ event: KafkaConsumerEvent) {
        perform { $0.state.push(event) }
    }

    /// Ends the sequence behind the buffered events.
    func finish(throwing error: KafkaError? = nil) {
        perform { $0.state.finish(error) }
    }

    /// Ends the sequence at once and drops the buffered events.
    func discard() {
        perform { shared in
            shared.state.events.removeAll()
            shared.state.batches = 0
            _ = shared.gathering.take()
            return shared.state.finish(nil)
        }
    }

    /// Removes the records of these partitions from the waiting batches and the next one.
    func remove(_ places: Set<TopicPartition>) {
        perform { shared in
            shared.state.remove(places)
            shared.gathering.remove(places)
            return .none
        }
    }

    // MARK: The receiver

    /// The next event; nil at the end, or when the task is cancelled.
    func next(isolation: isolated (any Actor)?) async throws(KafkaError) -> KafkaConsumerEvent? {
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation(isolation: isolation) { continuation in
                perform { shared in
                    if shared.state.isIdle, let batch = shared.gathering.take() {
                        return .resume(continuation, .success(.batch(batch)))
                    }
                    return shared.state.take(continuation)
                }
                // The handler below may have run before there was a waiter.
                if Task.isCancelled { perform { $0.state.cancelWaiter() } }
            }
        } onCancel: {
            perform { $0.state.cancelWaiter() }
        }
        if case .success(.batch) = outcome, wantsRoom { onRoom() }
        return try outcome.get()
    }

    private func perform(
        _ transition: (inout Shared) -> State<CheckedContinuation<Outcome, Never>>.Action
    ) {
        let action = shared.withLock { shared in
            let action = transition(&shared)
            batches.store(shared.state.batches, ordering: .releasing)
            hasWaiter.store(shared.state.isAwaited, ordering: .releasing)
            hasGathered.store(!shared.gathering.isEmpty, ordering: .releasing)
            return action
        }
        // After the lock is released: resuming may run the receiver.
        if case .resume(let waiter, let outcome) = action { waiter.resume(returning: outcome) }
    }
}

extension ConsumerEventBuffer {
    /// Transitions, without threads and tasks. `Waiter` stands for a suspended receiver.
    struct State<Waiter> {
        enum Action {
            case none
            case resume(Waiter, Outcome)
        }

        /// Most buffered errors; further ones are only logged.
        static var maximumErrors: Int { 16 }

        var events: [KafkaConsumerEvent] = []
        var batches = 0
        private var errors = 0
        private var isInterrupted = false
        private var waiter: Waiter?
        private var end: Result<Void, KafkaError>?

        /// Whether a receiver is suspended.
        var isAwaited: Bool { waiter != nil }
        /// Whether there is no event, no waiting receiver, and no end.
        var isIdle: Bool { events.isEmpty && waiter == nil && end == nil }

        mutating func push(_ event: KafkaConsumerEvent) -> Action {
            guard end == nil else { return .none }
            if let waiter {
                self.waiter = nil
                return .resume(waiter, .success(event))
            }
            if case .unreadable(let place, _, _) = event, hasUnreadable(place) { return .none }
            if case .advanced(let ends) = event, case .advanced(let waiting) = events.last {
                events[events.count - 1] = .advanced(waiting.merging(ends) { $1 })
                return .none
            }
            switch event {
            case .batch:
                batches += 1
            case .error:
                guard errors < Self.maximumErrors else { return .none }
                errors += 1
            case .interrupted:
                guard !isInterrupted else { return .none }
                isInterrupted = true
            case .offsetOutOfRange, .otherLog, .unreadable, .advanced:
                break
            }
            events.append(event)
            return .none
        }

        private func hasUnreadable(_ place: TopicPartition) -> Bool {
            events.contains { if case .unreadable(place, _, _) = $0 { true } else { false } }
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
                if case .interrupted = event { isInterrupted = false }
                return .resume(newcomer, .success(event))
            }
            guard let end else {
                waiter = newcomer
                return .none
            }
            // The error is thrown once; then the sequence is over.
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
                case .offsetOutOfRange(let place, _), .otherLog(let place, _), .unreadable(let place, _, _):
                    return places.contains(place) ? nil : event
                case .advanced(let ends):
                    let rest = ends.filter { !places.contains($0.key) }
                    return rest.isEmpty ? nil : .advanced(rest)
                case .interrupted, .error:
                    return event
                }
            }
            batches = events.count { if case .batch = $0 { true } else { false } }
        }
    }
}

/// The events of a consumer. One task iterates at a time; cancelling it ends its iteration, and another may go on.
package struct KafkaConsumerEvents: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let buffer: ConsumerEventBuffer

    package func makeAsyncIterator() -> Self { self }

    package func next(
        isolation actor: isolated (any Actor)?
    ) async throws(KafkaError) -> KafkaConsumerEvent? {
        try await buffer.next(isolation: actor)
    }
}
