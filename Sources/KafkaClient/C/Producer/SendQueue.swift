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
            continuation.resume(returning: batch.messages.map { .failure(refusal.about($0).afterRenewal) })
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
    var handedOver = 0
    private var outcomes: Outcomes
    private var continuation: CheckedContinuation<[Outcome], Never>?
    /// Flush epoch of the send.
    private(set) var epoch = 0
    /// End of the wait for room.
    var deadline = ContinuousClock.now
    /// Place in ``DeliverySlots`` from the first message handed over to the end.
    fileprivate var slot: Int?

    init(_ messages: [KafkaMessage]) {
        self.messages = messages
        outcomes = Outcomes(messages.count)
    }

    var waiting: Int { messages.count - handedOver }

    /// Prepares the batch before it is posted.
    func begin(_ continuation: CheckedContinuation<[Outcome], Never>, epoch: Int) {
        self.continuation = continuation
        self.epoch = epoch
    }

    /// Notes an outcome, and resumes the sender with the last one.
    ///
    /// - Returns: number of messages without an outcome; nil if the message had one already.
    func complete(_ index: Int, _ outcome: Outcome) -> Int? {
        guard let open = outcomes.note(index, outcome) else { return nil }
        if open == 0 {
            continuation?.resume(returning: outcomes.all)
            continuation = nil
        }
        return open
    }

    /// Fails the messages that were not handed over; true if none is open then.
    func failWaiting(_ error: (KafkaMessage) -> KafkaError) -> Bool {
        var isDone = false
        while handedOver < messages.count {
            let index = handedOver
            handedOver += 1
            isDone = complete(index, .failure(error(messages[index]))) == 0
        }
        return isDone
    }

    /// Outcomes by message. Errors are apart, since they are large and rare.
    private struct Outcomes {
        private var deliveries: [KafkaDelivery?]
        private var failures: [Int: KafkaError] = [:]
        private var open: Int

        init(_ count: Int) {
            deliveries = Array(repeating: nil, count: count)
            open = count
        }

        /// Notes an outcome, and returns the number of open messages; nil if the message is not open.
        mutating func note(_ index: Int, _ outcome: Outcome) -> Int? {
            guard deliveries.indices.contains(index), deliveries[index] == nil, failures[index] == nil else {
                return nil
            }
            switch outcome {
            case .success(let delivery): deliveries[index] = delivery
            case .failure(let error): failures[index] = error.afterRenewal
            }
            open -= 1
            return open
        }

        /// In the messages' order, once none is open.
        var all: [Outcome] {
            deliveries.indices.compactMap { index in
                deliveries[index].map { .success($0) } ?? failures[index].map { .failure($0) }
            }
        }
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

/// Sends with messages under way.
///
/// The tag of a message goes through librdkafka as its opaque pointer: the slot of its send in the upper half, and its
/// place in the send, from 1, in the lower half. So a tag is never 0.
struct DeliverySlots {
    private var batches: [SendBatch?] = []
    private var free: [Int] = []

    /// Returns the tag of a message that is handed over.
    mutating func insert(_ batch: SendBatch, _ index: Int) -> Int {
        if let slot = batch.slot { return slot << 32 | (index + 1) }
        let slot = free.popLast() ?? batches.count
        if slot == batches.count { batches.append(nil) }
        batches[slot] = batch
        batch.slot = slot
        return slot << 32 | (index + 1)
    }

    /// Returns the message of a tag; nil if there is none.
    func message(_ tag: Int) -> (batch: SendBatch, index: Int)? {
        guard batches.indices.contains(tag >> 32), let batch = batches[tag >> 32] else { return nil }
        return (batch, tag & 0xFFFF_FFFF - 1)
    }

    /// Removes a send without open messages.
    mutating func remove(_ batch: SendBatch) {
        guard let slot = batch.slot else { return }
        batch.slot = nil
        batches[slot] = nil
        free.append(slot)
    }
}
