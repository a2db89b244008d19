// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// Carries sends to the producer's thread and wakes it.
final class ProducerMailbox: Sendable {
    /// Messages and questions posted since the thread's last turn, and the state of the producer.
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
        /// Flush epoch of the next send.
        fileprivate var epoch = 0
        /// Reason for refusing sends.
        fileprivate var refusal: KafkaError?
        /// Whether the thread has ended, after which flushes return at once.
        fileprivate var isClosed = false
    }

    private let contents = Mutex(Contents())
    private let wakeup: Wakeup

    init(wakeup: Wakeup) {
        self.wakeup = wakeup
    }

    func send(_ batch: SendBatch, _ continuation: CheckedContinuation<[SendBatch.Outcome], Never>) {
        let refusal = contents.withLock { contents -> KafkaError? in
            if let refusal = contents.refusal { return refusal }
            batch.begin(continuation, epoch: contents.epoch)
            contents.batches.append(batch)
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
        contents.withLock { $0.hasCancellations = true }
        wakeup.signal()
    }

    func raiseFatalError() {
        contents.withLock { $0.raisesFatalError = true }
        wakeup.signal()
    }

    func flush(_ continuation: CheckedContinuation<Void, Never>) {
        let isClosed = contents.withLock { contents in
            if !contents.isClosed {
                contents.flushes.append((contents.epoch, continuation))
                contents.epoch += 1
            }
            return contents.isClosed
        }
        if isClosed { continuation.resume() } else { wakeup.signal() }
    }

    func askDepth(_ continuation: CheckedContinuation<KafkaProducerDepth, Never>) {
        let isClosed = contents.withLock { contents in
            if !contents.isClosed { contents.depthQuestions.append(continuation) }
            return contents.isClosed
        }
        if isClosed { continuation.resume(returning: KafkaProducerDepth()) } else { wakeup.signal() }
    }

    /// Stops the producer.
    ///
    /// - Parameter end: time at which unconfirmed messages are given up; the earliest counts.
    func stop(by end: ContinuousClock.Instant? = nil) {
        refuse(.shutDown("produce"))
        contents.withLock { contents in
            contents.isStopping = true
            if let end { contents.endsBy = min(contents.endsBy ?? end, end) }
        }
        wakeup.signal()
    }

    /// The fatal error that ended the client, if any.
    var fatalError: KafkaError? {
        contents.withLock { $0.refusal.flatMap { $0.isFatal ? $0 : nil } }
    }

    /// Fails every later send with an error; the first one counts.
    func refuse(_ error: KafkaError) {
        contents.withLock { $0.refusal = $0.refusal ?? error }
    }

    /// Takes what was posted since the last call.
    func take() -> Contents {
        contents.withLock { contents in
            defer {
                (contents.batches, contents.flushes, contents.depthQuestions) = ([], [], [])
                (contents.hasCancellations, contents.raisesFatalError) = (false, false)
            }
            return contents
        }
    }

    /// Notes the end of the thread, and returns the remaining contents.
    func close() -> Contents {
        contents.withLock { $0.isClosed = true }
        return take()
    }
}

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

/// Sends that wait for room, in order.
struct SendQueue {
    private var batches: [SendBatch] = []
    private var head = 0

    var isEmpty: Bool { head == batches.count }
    var first: SendBatch? { isEmpty ? nil : batches[head] }

    var messageCount: Int { batches[head...].reduce(0) { $0 + $1.waiting } }

    mutating func append(_ batch: SendBatch) { batches.append(batch) }

    mutating func removeFirst() {
        head += 1
        // Moves the rest up only when half of the array is used up: constant time on average.
        if head > 32, head * 2 > batches.count {
            batches.removeFirst(head)
            head = 0
        }
    }

    /// Removes and returns the batches that match.
    mutating func removeAll(where isRemoved: (SendBatch) -> Bool) -> [SendBatch] {
        var removed: [SendBatch] = []
        var kept: [SendBatch] = []
        for batch in batches[head...] {
            if isRemoved(batch) { removed.append(batch) } else { kept.append(batch) }
        }
        batches = kept
        head = 0
        return removed
    }
}

/// A message under way: its batch, its place there, and the bytes that count towards the bound.
typealias DeliverySlot = (batch: SendBatch, index: Int, size: Int)

/// Messages under way by tag. A tag goes through librdkafka as the message's opaque pointer, and is never 0.
struct DeliverySlots {
    private var slots: [DeliverySlot?] = []
    private var free: [Int] = []

    var count: Int { slots.count - free.count }
    var isEmpty: Bool { count == 0 }

    mutating func insert(_ slot: DeliverySlot) -> Int {
        if let index = free.popLast() {
            slots[index] = slot
            return index + 1
        }
        slots.append(slot)
        return slots.count
    }

    @discardableResult
    mutating func remove(_ tag: Int) -> DeliverySlot? {
        let index = tag - 1
        guard slots.indices.contains(index), let slot = slots[index] else { return nil }
        slots[index] = nil
        free.append(index)
        return slot
    }
}
