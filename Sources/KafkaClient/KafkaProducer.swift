package import Logging
internal import Synchronization

/// Produces messages so that each that is confirmed is stored exactly once and in order per partition: idempotent,
/// confirmed by all in-sync replicas.
///
/// Messages under way are bounded by number and bytes; beyond that callers wait, suspended, first come first served. One
/// thread hands the messages to librdkafka and collects the confirmations. An instance that is dropped without
/// `shutdown` finishes what it has.
///
/// A fatal error (a lost idempotence state, say) fails what is under way, and librdkafka's client with it, but not the
/// instance: a later ``send(_:)-(KafkaMessage)`` makes a new client, with back-off.
package final class KafkaProducer: Sendable {
    private let make: @Sendable () throws(KafkaError) -> ProducerLoop
    private let logger: Logger
    private let state: Mutex<State>

    private struct State {
        var loop: ProducerLoop
        var renewal = ProducerRenewal(madeAt: .now)
        var isStopped = false
        var restarts = 0
    }

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
        let limits = ProducerLimits(
            deliveryTimeout: deliveryTimeout, messages: maximumQueuedMessages, bytes: maximumQueuedBytes)
        self.logger = logger
        make = { () throws(KafkaError) in
            let loop = try ProducerLoop(configuration: configuration, limits: limits, logger: logger)
            do throws(KafkaError) {
                try PollThread.run("kafka-producer") { loop.run() }
            } catch {
                loop.discard()
                throw error
            }
            return loop
        }
        state = Mutex(State(loop: try make()))
    }

    deinit { state.withLock { $0.loop }.mailbox.stop() }

    /// The client to send with: a new one if the last has failed for good, all that it had has been answered, and the
    /// back-off is over; until then the old one, which answers with its error.
    private func current() -> ProducerLoop {
        state.withLock { state in
            guard !state.isStopped, state.loop.mailbox.fatalError != nil, state.loop.completion.isDone,
                state.renewal.isDue(now: .now)
            else { return state.loop }
            do {
                state.loop = try make()
                state.renewal.renewed(now: .now)
                state.restarts += 1
                logger.notice("a new producer takes the place of the failed one")
            } catch {
                state.renewal.failed(now: .now)
                logger.error("no new producer can be made", metadata: ["error": "\(error)"])
            }
            return state.loop
        }
    }

    /// How often a client that had failed for good was replaced.
    package var restarts: Int { state.withLock { $0.restarts } }

    /// Sends a message and waits for the brokers' confirmation.
    ///
    /// Cancelling the task takes the message back while it waits for room (`cancelled`). Once it is handed over it
    /// cannot be taken back, and the call goes on to its outcome.
    /// - Throws: an error that says whether the message may have been stored anyway (`isPossiblyPersisted`).
    package func send(_ message: KafkaMessage) async throws(KafkaError) -> KafkaDelivery {
        // One message in, one result out.
        try await send([message])[0].get()
    }

    /// Sends messages and waits until each is confirmed or has failed; the results are in the messages' order.
    package func send(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>] {
        guard !messages.isEmpty else { return [] }
        let batch = SendBatch(messages)
        let mailbox = current().mailbox
        let outcomes = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                mailbox.send(batch, continuation)
            }
        } onCancel: {
            mailbox.cancel(batch)
        }
        return outcomes.map { $0.mapError { $0.afterRenewal } }
    }

    /// Returns when everything that was sent before the call is confirmed or has failed.
    package func flush() async {
        let mailbox = state.withLock { $0.loop.mailbox }
        await withCheckedContinuation { mailbox.flush($0) }
    }

    /// Takes no more messages, finishes those that it has (at most twice the delivery timeout), and closes. Calling it
    /// again only waits.
    ///
    /// - Parameter bound: how long that may take; what is not confirmed by then fails (`purged`, and the brokers may have
    ///   it all the same).
    package func shutdown(within bound: Duration? = nil) async {
        let loop = state.withLock { state in
            state.isStopped = true
            return state.loop
        }
        loop.mailbox.stop(by: bound.map { ContinuousClock.now + $0 })
        await loop.completion.wait()
    }

    /// How much is under way and waiting, counting every send made before the call; all zero after the shutdown.
    package func depth() async -> KafkaProducerDepth {
        let mailbox = state.withLock { $0.loop.mailbox }
        return await withCheckedContinuation { mailbox.askDepth($0) }
    }

    /// Raises a fatal error, as for instance a lost idempotence state gets it. For tests.
    package func raiseFatalError() {
        state.withLock { $0.loop.mailbox }.raiseFatalError()
    }
}

/// When the next client may be made after one that has failed for good. Pure: times go in.
struct ProducerRenewal {
    static let base = Duration.milliseconds(100)
    static let cap = Duration.seconds(30)

    /// When the client that is in use was made.
    private var madeAt: ContinuousClock.Instant
    private var failures = 0
    /// Nil until the failure of the client in use was noticed.
    private var dueAt: ContinuousClock.Instant?

    init(madeAt: ContinuousClock.Instant) {
        self.madeAt = madeAt
    }

    /// Asked whenever the client is found to have failed.
    mutating func isDue(now: ContinuousClock.Instant) -> Bool {
        guard let dueAt else {
            // A client that worked for a while starts the back-off anew.
            if madeAt.duration(to: now) >= Self.cap { failures = 0 }
            failed(now: now)
            return false
        }
        return now >= dueAt
    }

    mutating func renewed(now: ContinuousClock.Instant) {
        madeAt = now
        dueAt = nil
    }

    /// No new one could be made.
    mutating func failed(now: ContinuousClock.Instant) {
        failures += 1
        dueAt = now + min(Self.base * (1 << min(failures - 1, 16)), Self.cap)
    }
}

extension KafkaError {
    /// As it is told to senders: what is fatal to librdkafka's client can be tried again with the next one.
    var afterRenewal: KafkaError {
        guard isFatal else { return self }
        var error = self
        error.isFatal = false
        error.isRetriable = true
        return error
    }
}
