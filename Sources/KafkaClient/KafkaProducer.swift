// SPDX-License-Identifier: Apache-2.0

package import Logging
internal import Synchronization
internal import Waiting

/// Produces messages idempotently: each confirmed message is stored by all in-sync replicas, exactly once and in order
/// per partition.
///
/// Messages under way are bounded by number and bytes; further callers wait in order. One thread hands messages to
/// librdkafka and collects the confirmations. An instance that is dropped without `shutdown` finishes the messages
/// under way.
///
/// A fatal error, such as a lost idempotence state, fails the messages under way and ends librdkafka's client. A later
/// ``send(_:)-(KafkaMessage)`` makes a new client, with back-off.
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
    ///   - deliveryTimeout: time limit from handing a message to librdkafka to its confirmation, and of the wait for
    ///     room before that: `send` returns within twice this time. At least 1 ms more than the linger time (5 ms).
    ///   - maximumQueuedMessages: most messages under way.
    ///   - maximumQueuedBytes: most bytes of keys, values and headers under way. A single message may exceed it.
    /// - Throws: `invalidConfiguration` with every invalid property.
    package init(
        configuration: KafkaConfiguration, deliveryTimeout: Duration = .seconds(30),
        maximumQueuedMessages: Int = 100_000,
        maximumQueuedBytes: Int = 64 << 20, logger: Logger
    ) throws(KafkaError) {
        self.logger = logger
        make = { () throws(KafkaError) in
            let loop = try ProducerLoop(
                configuration: configuration, deliveryTimeout: deliveryTimeout, maximumMessages: maximumQueuedMessages,
                maximumBytes: maximumQueuedBytes, logger: logger)
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

    /// Number of failed clients that were replaced.
    package var restarts: Int { state.withLock { $0.restarts } }

    /// Sends a message and waits for the brokers' confirmation.
    ///
    /// Cancelling the task withdraws a message that waits for room (`cancelled`). A message under way cannot be
    /// withdrawn: the call continues to its outcome.
    /// - Throws: an error with `isPossiblyPersisted` if the message may be stored all the same.
    package func send(_ message: KafkaMessage) async throws(KafkaError) -> KafkaDelivery {
        try await send([message])[0].get()
    }

    /// Sends messages, waits until each is confirmed or has failed, and returns the results in their order.
    package func send(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>] {
        guard !messages.isEmpty else { return [] }
        let batch = SendBatch(messages)
        // A new client follows one that failed for good, once that has answered all its messages and the back-off is
        // over. Until then the old one answers with its error.
        let mailbox = state.withLock { state in
            guard !state.isStopped, state.loop.mailbox.fatalError != nil, state.loop.completion.isDone,
                state.renewal.checkDue(now: .now)
            else { return state.loop.mailbox }
            do {
                state.loop = try make()
                state.renewal.recordRenewal(now: .now)
                state.restarts += 1
                logger.notice("a new producer takes the place of the failed one")
            } catch {
                state.renewal.recordFailure(now: .now)
                logger.error("no new producer can be made", metadata: ["error": "\(error)"])
            }
            return state.loop.mailbox
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                mailbox.send(batch, continuation)
            }
        } onCancel: {
            mailbox.cancel(batch)
        }
    }

    /// Waits until every message sent before the call is confirmed or has failed.
    package func flush() async {
        let mailbox = state.withLock { $0.loop.mailbox }
        await withCheckedContinuation { mailbox.flush($0) }
    }

    /// Refuses further messages, finishes those under way (at most twice the delivery timeout), and closes.
    ///
    /// - Parameter bound: time limit, after which unconfirmed messages fail with `purged`; the brokers may have stored
    ///   them.
    package func shutdown(within bound: Duration? = nil) async {
        let loop = state.withLock { state in
            state.isStopped = true
            return state.loop
        }
        loop.mailbox.stop(by: bound.map { ContinuousClock.now + $0 })
        await loop.completion.wait()
    }

    /// Number of messages under way and waiting, every send before the call included; zero after the shutdown.
    package func depth() async -> KafkaProducerDepth {
        let mailbox = state.withLock { $0.loop.mailbox }
        return await withCheckedContinuation { mailbox.askDepth($0) }
    }

    /// Raises a fatal error. For tests.
    package func raiseFatalError() {
        state.withLock { $0.loop.mailbox }.raiseFatalError()
    }
}

/// Back-off between clients that have failed for good. Pure: times are parameters.
struct ProducerRenewal {
    static let backoff = Backoff(base: .milliseconds(100), cap: .seconds(30))

    /// Time at which the present client was made.
    private var madeAt: ContinuousClock.Instant
    private var failures = 0
    /// Nil until the failure of the present client is noticed.
    private var dueAt: ContinuousClock.Instant?

    init(madeAt: ContinuousClock.Instant) {
        self.madeAt = madeAt
    }

    /// Returns whether a new client is due, for a client that has failed. The first call notes the failure.
    mutating func checkDue(now: ContinuousClock.Instant) -> Bool {
        guard let dueAt else {
            // A client that worked for a while starts the back-off anew.
            if madeAt.duration(to: now) >= Self.backoff.cap { failures = 0 }
            recordFailure(now: now)
            return false
        }
        return now >= dueAt
    }

    mutating func recordRenewal(now: ContinuousClock.Instant) {
        madeAt = now
        dueAt = nil
    }

    /// Notes that no new client could be made.
    mutating func recordFailure(now: ContinuousClock.Instant) {
        failures += 1
        dueAt = now + Self.backoff.bound(attempt: failures)
    }
}

extension KafkaError {
    /// The error for senders: an error that is fatal to librdkafka's client is transient, since the next client can
    /// succeed.
    var afterRenewal: KafkaError {
        guard isFatal else { return self }
        var error = self
        error.isFatal = false
        error.isRetriable = true
        return error
    }
}
