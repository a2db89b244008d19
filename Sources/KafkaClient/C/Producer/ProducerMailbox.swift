internal import Synchronization

/// Carries sends to the producer's thread and wakes it.
final class ProducerMailbox: Sendable {
    struct Contents: Sendable {
        var batches: [SendBatch] = []
        var flushes: [(epoch: Int, continuation: CheckedContinuation<Void, Never>)] = []
        var depthQuestions: [CheckedContinuation<KafkaProducerDepth, Never>] = []
        var hasCancellations = false
        /// For tests.
        var raisesFatalError = false
        var isStopping = false
        /// Time at which unconfirmed messages are given up.
        var endsBy: ContinuousClock.Instant?
    }

    private struct State {
        var contents = Contents()
        var epoch = 0
        /// Reason for refusing sends.
        var refusal: KafkaError?
        var isClosed = false
    }

    private let state = Mutex(State())
    private let wakeup: Wakeup

    init(wakeup: Wakeup) {
        self.wakeup = wakeup
    }

    func send(_ batch: SendBatch, _ continuation: CheckedContinuation<[SendBatch.Outcome], Never>) {
        let refusal = state.withLock { state -> KafkaError? in
            if let refusal = state.refusal { return refusal }
            batch.begin(continuation, epoch: state.epoch)
            state.contents.batches.append(batch)
            return nil
        }
        if let refusal {
            continuation.resume(returning: batch.messages.map { .failure(refusal.about($0)) })
        } else {
            wakeup.signal()
        }
    }

    func cancel(_ batch: SendBatch) {
        batch.isCancelled.store(true, ordering: .releasing)
        state.withLock { $0.contents.hasCancellations = true }
        wakeup.signal()
    }

    func raiseFatalError() {
        state.withLock { $0.contents.raisesFatalError = true }
        wakeup.signal()
    }

    func flush(_ continuation: CheckedContinuation<Void, Never>) {
        let isClosed = state.withLock { state in
            if !state.isClosed {
                state.contents.flushes.append((state.epoch, continuation))
                state.epoch += 1
            }
            return state.isClosed
        }
        if isClosed { continuation.resume() } else { wakeup.signal() }
    }

    func askDepth(_ continuation: CheckedContinuation<KafkaProducerDepth, Never>) {
        let isClosed = state.withLock { state in
            if !state.isClosed { state.contents.depthQuestions.append(continuation) }
            return state.isClosed
        }
        if isClosed { continuation.resume(returning: KafkaProducerDepth()) } else { wakeup.signal() }
    }

    /// Stops the producer.
    ///
    /// - Parameter end: time at which unconfirmed messages are given up; the earliest counts.
    func stop(by end: ContinuousClock.Instant? = nil) {
        refuse(.shutDown("produce"))
        state.withLock { state in
            state.contents.isStopping = true
            if let end { state.contents.endsBy = min(state.contents.endsBy ?? end, end) }
        }
        wakeup.signal()
    }

    /// The fatal error that ended the client, if any.
    var fatalError: KafkaError? {
        state.withLock { $0.refusal.flatMap { $0.isFatal ? $0 : nil } }
    }

    /// Fails every later send with an error; the first one counts.
    func refuse(_ error: KafkaError) {
        state.withLock { $0.refusal = $0.refusal ?? error }
    }

    func take() -> Contents {
        state.withLock { state in
            let contents = state.contents
            state.contents = Contents()
            state.contents.isStopping = contents.isStopping
            state.contents.endsBy = contents.endsBy
            return contents
        }
    }

    /// Notes the end of the thread, after which flushes return at once, and returns the remaining contents.
    func close() -> Contents {
        state.withLock { state in
            state.isClosed = true
            defer { state.contents = Contents() }
            return state.contents
        }
    }
}
