internal import Synchronization

/// Messages of one `send`, with what has become of each.
///
/// `@unchecked Sendable`: after it is posted, what is mutable is used on the producer's thread only; `isCancelled` is
/// atomic.
final class SendBatch: @unchecked Sendable {
    typealias Outcome = Result<KafkaDelivery, KafkaError>

    let messages: [KafkaMessage]
    let isCancelled = Atomic(false)

    /// Messages before this one are handed over or have failed.
    private(set) var handedOver = 0
    private var outcomes: [Outcome?]
    private var open: Int
    private var continuation: CheckedContinuation<[Outcome], Never>?
    /// The flush epoch that it was sent in.
    private(set) var epoch = 0
    /// When waiting for room ends.
    private(set) var deadline = ContinuousClock.now

    init(_ messages: [KafkaMessage]) {
        self.messages = messages
        outcomes = Array(repeating: nil, count: messages.count)
        open = messages.count
    }

    var waiting: Int { messages.count - handedOver }

    /// Before it is posted.
    func begin(_ continuation: CheckedContinuation<[Outcome], Never>, epoch: Int) {
        self.continuation = continuation
        self.epoch = epoch
    }

    func setDeadline(_ deadline: ContinuousClock.Instant) {
        self.deadline = deadline
    }

    /// The next message is handed over.
    func advance() { handedOver += 1 }

    /// True if this was the last one: the sender goes on.
    func complete(_ index: Int, _ outcome: Outcome) -> Bool {
        guard outcomes[index] == nil else { return false }
        outcomes[index] = outcome
        open -= 1
        guard open == 0 else { return false }
        continuation?.resume(returning: outcomes.compactMap { $0 })
        continuation = nil
        return true
    }

    /// Fails what has not been handed over; true if nothing is open then.
    func failWaiting(_ error: (KafkaMessage) -> KafkaError) -> Bool {
        var isDone = false
        while handedOver < messages.count {
            let index = handedOver
            handedOver += 1
            isDone = complete(index, .failure(error(messages[index])))
        }
        return isDone
    }
}

extension KafkaError {
    /// The same error, told of one message.
    func about(_ message: KafkaMessage) -> KafkaError {
        var error = self
        error.context.topic = message.topic
        error.context.partition = message.partition
        return error
    }
}
