// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// The events of a consumer: a queue between the poll thread, which gathers messages, and the one receiver. One task
/// iterates at a time; cancelling it ends its iteration, and another may go on.
///
/// The poll thread bounds the queue: it checks ``pendingBatches`` before it adds a batch. The receiver takes the
/// messages gathered so far by itself: batches grow while it is busy, and no thread is woken for them.
package final class KafkaConsumerEvents: AsyncSequence, AsyncIteratorProtocol, Sendable {
    typealias Outcome = Result<KafkaConsumerEvent?, KafkaError>
    private typealias Shared = State<CheckedContinuation<Outcome, Never>>

    private let state: Mutex<Shared>
    // Mirror the state for the poll thread, without the lock.
    private let batches = Atomic(0)
    private let hasWaiter = Atomic(false)
    private let hasGathered = Atomic(false)
    private let isRoomWanted = Atomic(false)
    private let onRoom: @Sendable () -> Void

    /// - Parameters:
    ///   - builder: gathers the next batch.
    ///   - onRoom: called when the receiver has taken a batch and ``wantsRoom`` is set.
    init(builder: BatchBuilder, onRoom: @escaping @Sendable () -> Void) {
        state = Mutex(Shared(builder: builder))
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
        state.withLock { ($0.builder.messages, $0.builder.batches) }
    }

    // MARK: The poll thread

    /// Adds to the next batch; answers whether that is full.
    func gather(_ body: (inout BatchBuilder) -> Void) -> Bool {
        state.withLock { state in
            body(&state.builder)
            hasGathered.store(!state.builder.isEmpty, ordering: .releasing)
            return state.builder.isFull
        }
    }

    var isFull: Bool { state.withLock { $0.builder.isFull } }

    /// Appends the gathered batch to the events.
    func flush() {
        perform { $0.flush() }
    }

    func push(_ event: KafkaConsumerEvent) {
        perform { $0.push(event) }
    }

    /// Ends the sequence behind the buffered events.
    func finish(throwing error: KafkaError? = nil) {
        perform { $0.finish(error) }
    }

    /// Ends the sequence at once and drops the buffered events.
    func discard() {
        perform { $0.discard() }
    }

    /// Removes the records of these partitions from the waiting batches and the next one.
    func remove(_ places: Set<TopicPartition>) {
        perform { state in
            state.remove(places)
            return nil
        }
    }

    // MARK: The receiver

    package func makeAsyncIterator() -> KafkaConsumerEvents { self }

    /// The next event; nil at the end, or when the task is cancelled.
    package func next(
        isolation actor: isolated (any Actor)?
    ) async throws(KafkaError) -> KafkaConsumerEvent? {
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation(isolation: actor) { continuation in
                perform { $0.take(continuation) }
                // The handler below may have run before there was a waiter.
                if Task.isCancelled { perform { $0.cancelWaiter() } }
            }
        } onCancel: {
            perform { $0.cancelWaiter() }
        }
        if case .success(.batch) = outcome, wantsRoom { onRoom() }
        return try outcome.get()
    }

    private func perform(_ transition: (inout Shared) -> Shared.Resumption?) {
        let resumption = state.withLock { state in
            let resumption = transition(&state)
            batches.store(state.batches, ordering: .releasing)
            hasWaiter.store(state.isAwaited, ordering: .releasing)
            hasGathered.store(!state.builder.isEmpty, ordering: .releasing)
            return resumption
        }
        // After the lock is released: resuming may run the receiver.
        if let (waiter, outcome) = resumption { waiter.resume(returning: outcome) }
    }
}

extension KafkaConsumerEvents {
    /// Transitions, without threads and tasks. `Waiter` stands for a suspended receiver.
    struct State<Waiter> {
        /// A receiver to resume, which each transition may return.
        typealias Resumption = (waiter: Waiter, outcome: Outcome)

        /// Most buffered errors; further ones are only logged.
        static var maximumErrors: Int { 16 }

        /// Gathers the next batch, which comes behind all events.
        var builder: BatchBuilder
        var events: [KafkaConsumerEvent] = []
        var batches = 0
        private var errors = 0
        private var isInterrupted = false
        private var waiter: Waiter?
        private var end: Result<Void, KafkaError>?

        /// Whether a receiver is suspended.
        var isAwaited: Bool { waiter != nil }

        init(builder: BatchBuilder) {
            self.builder = builder
        }

        /// Appends the gathered batch to the events.
        mutating func flush() -> Resumption? { builder.take().flatMap { push(.batch($0)) } }

        mutating func push(_ event: KafkaConsumerEvent) -> Resumption? {
            guard end == nil else { return nil }
            if let waiter {
                self.waiter = nil
                return (waiter, .success(event))
            }
            if case .unreadable(let place, _, _) = event, hasUnreadable(place) { return nil }
            if case .advanced(let ends) = event, case .advanced(let waiting) = events.last {
                events[events.count - 1] = .advanced(waiting.merging(ends) { $1 })
                return nil
            }
            switch event {
            case .batch:
                batches += 1
            case .error:
                guard errors < Self.maximumErrors else { return nil }
                errors += 1
            case .interrupted:
                guard !isInterrupted else { return nil }
                isInterrupted = true
            case .offsetOutOfRange, .otherLog, .unreadable, .advanced:
                break
            }
            events.append(event)
            return nil
        }

        private func hasUnreadable(_ place: TopicPartition) -> Bool {
            events.contains { if case .unreadable(place, _, _) = $0 { true } else { false } }
        }

        mutating func take(_ newcomer: Waiter) -> Resumption? {
            guard waiter == nil else {
                let error = KafkaError(
                    code: .invalidState, message: "the events have one receiver, and it is waiting already",
                    isRetriable: false, context: KafkaError.Context(operation: "receive"))
                return (newcomer, .failure(error))
            }
            guard events.isEmpty else {
                let event = events.removeFirst()
                if case .batch = event { batches -= 1 }
                if case .error = event { errors -= 1 }
                if case .interrupted = event { isInterrupted = false }
                return (newcomer, .success(event))
            }
            guard let end else {
                if let batch = builder.take() { return (newcomer, .success(.batch(batch))) }
                waiter = newcomer
                return nil
            }
            // The error is thrown once; then the sequence is over.
            self.end = .success(())
            return (newcomer, end.map { nil })
        }

        mutating func cancelWaiter() -> Resumption? {
            guard let waiter else { return nil }
            self.waiter = nil
            return (waiter, .success(nil))
        }

        mutating func finish(_ error: KafkaError?) -> Resumption? {
            guard end == nil else { return nil }
            if let waiter {
                self.waiter = nil
                end = .success(())
                return (waiter, error.map { .failure($0) } ?? .success(nil))
            }
            end = error.map { .failure($0) } ?? .success(())
            return nil
        }

        /// Ends the sequence and drops what was not received.
        mutating func discard() -> Resumption? {
            events.removeAll()
            batches = 0
            _ = builder.take()
            return finish(nil)
        }

        /// Removes the records of these partitions from the waiting batches and the next one.
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
            builder.remove(places)
            batches = events.count { if case .batch = $0 { true } else { false } }
        }
    }
}
