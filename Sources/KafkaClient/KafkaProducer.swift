package import Logging

/// Produces messages so that each that is confirmed is stored exactly once and in order per partition: idempotent,
/// confirmed by all in-sync replicas.
///
/// What is under way is bounded by number and bytes; beyond that callers wait, suspended, first come first served. One
/// thread hands the messages to librdkafka and collects the confirmations. An instance that is dropped without
/// `shutdown` finishes what it has.
package final class KafkaProducer: Sendable {
    private let loop: ProducerLoop

    /// - Parameters:
    ///   - deliveryTimeout: how long one message may take from being handed to librdkafka to its confirmation, and how
    ///     long it may wait for room before that: `send` returns within twice this time. At least 1 ms more than the
    ///     linger time (5 ms).
    ///   - maximumQueuedMessages: messages under way.
    ///   - maximumQueuedBytes: keys, values and headers under way. A single message may exceed it when nothing else is
    ///     under way.
    /// - Throws: `invalidConfiguration` with every property that is wrong.
    package init(
        configuration: KafkaConfiguration, deliveryTimeout: Duration = .seconds(30),
        maximumQueuedMessages: Int = 100_000,
        maximumQueuedBytes: Int = 64 << 20, logger: Logger
    ) throws(KafkaError) {
        loop = try ProducerLoop(
            configuration: configuration,
            limits: ProducerLimits(
                deliveryTimeout: deliveryTimeout, messages: maximumQueuedMessages, bytes: maximumQueuedBytes),
            logger: logger)
        let loop = loop
        do {
            try PollThread.run("kafka-producer") { loop.run() }
        } catch {
            loop.discard()
            throw error
        }
    }

    deinit { loop.mailbox.stop() }

    /// Sends a message and waits for the brokers' confirmation.
    ///
    /// Cancelling the task takes the message back while it waits for room (`cancelled`). Once it is handed over it
    /// cannot be taken back, and the call goes on to its outcome.
    /// - Throws: an error that says whether the message may have been stored all the same (`isPossiblyPersisted`).
    package func send(_ message: KafkaMessage) async throws(KafkaError) -> KafkaDelivery {
        // One message in, one result out.
        try await send([message])[0].get()
    }

    /// Sends messages and waits until each is confirmed or has failed; the results are in the messages' order.
    package func send(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>] {
        guard !messages.isEmpty else { return [] }
        let batch = SendBatch(messages)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                loop.mailbox.send(batch, continuation)
            }
        } onCancel: {
            loop.mailbox.cancel(batch)
        }
    }

    /// Returns when everything that was sent before the call is confirmed or has failed.
    package func flush() async {
        await withCheckedContinuation { loop.mailbox.flush($0) }
    }

    /// Takes no more messages, finishes those that it has (at most twice the delivery timeout), and closes. Calling it
    /// again only waits.
    package func shutdown() async {
        loop.mailbox.stop()
        await loop.completion.wait()
    }

    /// How much is under way and waiting, counting every send made before the call; all zero after the shutdown.
    package func depth() async -> KafkaProducerDepth {
        await withCheckedContinuation { loop.mailbox.askDepth($0) }
    }

    /// Raises a fatal error, as for instance a lost idempotence state gets it. For tests.
    package func raiseFatalError() {
        loop.raiseFatalError()
    }
}

/// A producer's queues at one moment.
package struct KafkaProducerDepth: Hashable, Sendable {
    /// Messages that are handed over and not confirmed.
    package var messagesInFlight = 0
    package var bytesInFlight = 0
    /// Messages whose senders wait for room.
    package var messagesWaiting = 0

    package init() {}
}

struct ProducerLimits: Sendable {
    var deliveryTimeout: Duration
    var messages: Int
    var bytes: Int

    var problems: [String] {
        var problems: [String] = []
        if deliveryTimeout < .milliseconds(1) || deliveryTimeout > .seconds(900) {
            problems.append("deliveryTimeout: must be from 1 ms to 15 minutes")
        }
        if messages < 1 || messages > 10_000_000 {
            problems.append("maximumQueuedMessages: must be from 1 to 10,000,000")
        }
        if bytes < 1 || bytes > 2 << 30 { problems.append("maximumQueuedBytes: must be from 1 byte to 2 GiB") }
        return problems
    }
}
