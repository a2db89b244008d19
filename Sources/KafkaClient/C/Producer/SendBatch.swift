internal import Synchronization

/// Messages of one `send`, with their outcomes.
///
/// `@unchecked Sendable`: after it is posted, only the producer's thread uses the mutable state; `isCancelled` is
/// atomic.
final class SendBatch: @unchecked Sendable {
    typealias Outcome = Result<KafkaDelivery, KafkaError>

    let messages: [KafkaMessage]
    let isCancelled = Atomic(false)

    /// Number of messages handed over or failed.
    private(set) var handedOver = 0
    private var outcomes: [Outcome?]
    private var open: Int
    private var continuation: CheckedContinuation<[Outcome], Never>?
    /// Flush epoch of the send.
    private(set) var epoch = 0
    /// End of the wait for room.
    var deadline = ContinuousClock.now

    init(_ messages: [KafkaMessage]) {
        self.messages = messages
        outcomes = Array(repeating: nil, count: messages.count)
        open = messages.count
    }

    var waiting: Int { messages.count - handedOver }

    /// Prepares the batch before it is posted.
    func begin(_ continuation: CheckedContinuation<[Outcome], Never>, epoch: Int) {
        self.continuation = continuation
        self.epoch = epoch
    }

    /// Notes that the next message is handed over.
    func advance() { handedOver += 1 }

    /// Notes an outcome; true for the last one, which resumes the sender.
    func complete(_ index: Int, _ outcome: Outcome) -> Bool {
        guard outcomes[index] == nil else { return false }
        outcomes[index] = outcome
        open -= 1
        guard open == 0 else { return false }
        continuation?.resume(returning: outcomes.compactMap { $0 })
        continuation = nil
        return true
    }

    /// Fails the messages that were not handed over; true if none is open then.
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
    /// The same error for one message.
    func about(_ message: KafkaMessage) -> KafkaError {
        var error = self
        error.context.topic = message.topic
        error.context.partition = message.partition
        return error
    }
}
