// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka
internal import Logging
internal import Synchronization

/// The producer's thread. It alone hands messages to librdkafka and receives their outcomes.
///
/// `@unchecked Sendable`: `run` executes on one thread, which also runs every callback. The members used from elsewhere
/// (`mailbox`, `completion`, `client`) are Sendable themselves. The thread keeps the instance alive until the client is
/// destroyed.
final class ProducerLoop: @unchecked Sendable {
    let mailbox: ProducerMailbox
    let completion = Completion()

    private let deliveryTimeout: Duration
    private let logger: Logger
    private let client: ClientHandle
    private let wakeup: Wakeup

    private var messages: MessagesUnderWay
    /// Number of unfinished sends by flush epoch.
    private var openByEpoch: [Int: Int] = [:]
    private var flushes: [(epoch: Int, continuation: CheckedContinuation<Void, Never>)] = []
    private var depthQuestions: [CheckedContinuation<KafkaProducerDepth, Never>] = []
    private var fatalError: KafkaError?
    private var isStopping = false
    /// Time at which unconfirmed messages are given up; nil afterwards.
    private var endsBy: ContinuousClock.Instant?
    private var isGivenUp = false

    private static let pollMilliseconds: Int32 = 100

    init(
        configuration: KafkaConfiguration, deliveryTimeout: Duration, maximumMessages: Int, maximumBytes: Int,
        logger: Logger
    ) throws(KafkaError) {
        (self.deliveryTimeout, self.logger) = (deliveryTimeout, logger)
        messages = MessagesUnderWay(maximumMessages: maximumMessages, maximumBytes: maximumBytes)
        var problems: [String] = []
        if deliveryTimeout < .milliseconds(1) || deliveryTimeout > .seconds(900) {
            problems.append("deliveryTimeout: must be from 1 ms to 15 minutes")
        }
        if maximumMessages < 1 || maximumMessages > 10_000_000 {
            problems.append("maximumQueuedMessages: must be from 1 to 10,000,000")
        }
        if maximumBytes < 1 || maximumBytes > 2 << 30 {
            problems.append("maximumQueuedBytes: must be from 1 byte to 2 GiB")
        }
        let milliseconds = max(deliveryTimeout / .milliseconds(1), 1)
        client = try ClientHandle(
            .producer, configuration,
            defaults: [
                "client.id": "freshet",
                "linger.ms": "\(min(5, max(Int(milliseconds) - 1, 0)))",
                "compression.codec": "lz4",
                "partitioner": "consistent_random",
                "socket.keepalive.enable": "true",
                "socket.nagle.disable": "true",
                // The bound is here instead, where callers wait in order.
                "queue.buffering.max.messages": "\(min(max(maximumMessages, 1), 10_000_000))",
                "queue.buffering.max.kbytes": "2097151",
            ],
            fixed: [
                "enable.idempotence": "true",
                "acks": "all",
                "message.timeout.ms": "\(Int(milliseconds))",
                "delivery.report.only.error": "false",
            ], problems: problems, pollsLogs: true, logger: logger, operation: "make a producer")
        unsafe rd_kafka_set_log_queue(client.pointer, nil)
        wakeup = unsafe Wakeup(polling: rd_kafka_queue_get_main(client.pointer))
        mailbox = ProducerMailbox(wakeup: wakeup)
    }

    /// Frees a loop whose thread could not be started.
    func discard() {
        wakeup.close()
        client.destroy()
    }

    /// Body of the thread.
    func run() {
        client.callbacks.onError = { self.errorRaised($0, reason: $1) }
        unsafe client.callbacks.onDelivery = { unsafe self.delivered($0) }
        while !(isStopping && messages.waiting.isEmpty && messages.isEmpty) {
            collect()
            let mayHandOverMore = handOver()
            finishFlushes()
            answerDepth()
            if isStopping && messages.waiting.isEmpty && messages.isEmpty { break }
            _ = unsafe rd_kafka_poll(client.pointer, mayHandOverMore || wakeup.isPending ? 0 : Self.pollMilliseconds)
        }
        close()
        completion.complete()
    }

    // MARK: Sending

    /// Takes what was posted, and fails sends that must not or cannot go on.
    private func collect() {
        if wakeup.isPending {
            wakeup.clear()
            let contents = mailbox.take()
            isStopping = isStopping || contents.isStopping
            if !isGivenUp { endsBy = contents.endsBy }
            let deadline = ContinuousClock.now + deliveryTimeout
            for batch in contents.batches {
                openByEpoch[batch.epoch, default: 0] += 1
                batch.deadline = deadline
                // The cancellation may have come before the send.
                if batch.isCancelled.load(ordering: .acquiring) {
                    fail([batch], Self.cancelled)
                } else {
                    messages.waiting.append(batch)
                }
            }
            flushes += contents.flushes
            depthQuestions += contents.depthQuestions
            if contents.raisesFatalError { raiseFatalError() }
            if contents.hasCancellations {
                fail(messages.waiting.removeAll { $0.isCancelled.load(ordering: .acquiring) }, Self.cancelled)
            }
        }
        if let fatalError { fail(messages.waiting.removeAll { _ in true }, fatalError) }
        if let endsBy, endsBy <= .now { giveUp() }
        while let batch = messages.waiting.first, batch.deadline <= .now {
            messages.waiting.removeFirst()
            fail([batch], Self.error(.messageTimedOut, "no room within the delivery timeout"))
        }
    }

    /// Hands messages to librdkafka while there is room; true if it stopped only for a poll.
    private func handOver() -> Bool {
        guard !messages.waiting.isEmpty else { return false }
        let (stoppedForPoll, finished) = messages.handOver(to: client, fatalError)
        for batch in finished { self.finished(batch) }
        return stoppedForPoll
    }

    private static let cancelled = error(.cancelled, "the task was cancelled before the message was sent")

    private static func error(_ code: KafkaError.Code, _ text: String, isRetriable: Bool = true) -> KafkaError {
        KafkaError(
            code: code, message: text, isRetriable: isRetriable, context: KafkaError.Context(operation: "produce"))
    }

    /// Fails the messages that were not handed over.
    private func fail(_ batches: [SendBatch], _ error: KafkaError) {
        for batch in batches where batch.failWaiting({ error.about($0) }) { finished(batch) }
    }

    /// Fails the unconfirmed messages at the end of the time for an orderly stop.
    private func giveUp() {
        endsBy = nil
        isGivenUp = true
        let count = messages.count + messages.waiting.messageCount
        guard count > 0 else { return }
        logger.warning("messages were not confirmed before the end", metadata: ["messages": "\(count)"])
        fail(
            messages.waiting.removeAll { _ in true },
            Self.error(.purged, "the producer was shut down before the message was sent", isRetriable: false))
        // librdkafka then reports each message as purged.
        unsafe rd_kafka_purge(client.pointer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT)
    }

    private func finished(_ batch: SendBatch) {
        messages.remove(batch)
        guard let open = openByEpoch[batch.epoch] else { return }
        openByEpoch[batch.epoch] = open > 1 ? open - 1 : nil
    }

    private func finishFlushes() {
        guard !flushes.isEmpty else { return }
        let oldest = openByEpoch.keys.min() ?? .max
        for flush in flushes where flush.epoch < oldest { flush.continuation.resume() }
        flushes.removeAll { $0.epoch < oldest }
    }

    private func answerDepth() {
        guard !depthQuestions.isEmpty else { return }
        var depth = KafkaProducerDepth()
        depth.messagesInFlight = messages.count
        depth.bytesInFlight = messages.bytes
        depth.messagesWaiting = messages.waiting.messageCount
        for question in depthQuestions { question.resume(returning: depth) }
        depthQuestions = []
    }

    // MARK: Callbacks

    private func delivered(_ message: UnsafePointer<rd_kafka_message_t>) {
        let fatalError = fatalError
        let batch = unsafe messages.complete(Int(bitPattern: message.pointee._private)) { original in
            unsafe Self.outcome(message, of: original, fatalError)
        }
        if let batch { finished(batch) }
    }

    private static func outcome(
        _ message: UnsafePointer<rd_kafka_message_t>, of original: KafkaMessage, _ fatalError: KafkaError?
    ) -> SendBatch.Outcome {
        let response = unsafe message.pointee.err
        guard response != RD_KAFKA_RESP_ERR_NO_ERROR else {
            let offset = unsafe message.pointee.offset
            return unsafe .success(
                KafkaDelivery(partition: message.pointee.partition, offset: offset < 0 ? nil : offset))
        }
        let isPossiblyPersisted = unsafe rd_kafka_message_status(message) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED
        if var error = fatalError?.about(original) {
            error.isPossiblyPersisted = isPossiblyPersisted
            return .failure(error)
        }
        return .failure(
            KafkaError(
                response, isPossiblyPersisted: isPossiblyPersisted,
                context: KafkaError.Context(
                    operation: "produce", topic: original.topic, partition: original.partition)))
    }

    private func errorRaised(_ response: rd_kafka_resp_err_t, reason: String) {
        guard response == RD_KAFKA_RESP_ERR__FATAL else {
            let error = KafkaError(response, message: reason, context: KafkaError.Context(operation: "produce"))
            logger.log(
                level: error.isRetriable ? .notice : .warning, "\(client.callbacks.redact(reason))",
                metadata: ["code": "\(error.code)"])
            return
        }
        guard fatalError == nil, let error = KafkaError.fatal(of: client, operation: "produce") else { return }
        logger.error(
            "the producer has failed for good; a new one is made", metadata: ["error": "\(error.message)"])
        fatalError = error
        mailbox.refuse(error)
        // librdkafka confirms nothing more; this makes it say so of each message now.
        unsafe rd_kafka_purge(client.pointer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT)
        // Nothing can be done with this client any more; its owner makes another.
        isStopping = true
    }

    /// On the thread itself: elsewhere the client might be destroyed for it before the call has returned.
    private func raiseFatalError() {
        unsafe rd_kafka_test_fatal_error(
            client.pointer, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "raised for a test")
    }

    // MARK: End

    private func close() {
        // Everything that was accepted is finished. Sends may have come between the last look and the refusal of a
        // fatal error, and questions until now.
        let contents = mailbox.close()
        for batch in contents.batches {
            let error = fatalError ?? .shutDown("produce")
            _ = batch.failWaiting { error.about($0) }
        }
        flushes += contents.flushes
        depthQuestions += contents.depthQuestions
        finishFlushes()
        answerDepth()
        messages.destroy()
        wakeup.close()
        client.callbacks.onError = nil
        unsafe client.callbacks.onDelivery = nil
        client.destroy()
    }
}
