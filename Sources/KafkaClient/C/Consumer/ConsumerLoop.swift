internal import CRdKafka
internal import Logging
internal import Synchronization

/// The consumer's poll thread: the only one that polls, moves positions, and touches what is mutable here.
///
/// `@unchecked Sendable`: `run` executes on one thread, which calls every callback too (they come from within its
/// polls). The members that are used from elsewhere (`mailbox`, `buffer`, `counters`, `completion`, `client`) are
/// Sendable by themselves. The thread keeps the instance alive until the client is destroyed.
final class ConsumerLoop: @unchecked Sendable {
    let mailbox: ConsumerMailbox
    let buffer: ConsumerEventBuffer
    let counters = Mutex(KafkaConsumerCounters())
    let completion = Completion()
    /// When the thread came round last; nil when it has ended.
    let lastTurn = Mutex<ContinuousClock.Instant?>(.now)

    let configuration: KafkaConsumerConfiguration
    let logger: Logger
    let client: ClientHandle
    let wakeup: Wakeup
    let callbacks: ClientCallbacks

    var tracker = PartitionTracker()
    var indexCache = PartitionIndexCache()
    /// Fetching is paused because the receiver is slow.
    var isHolding = false
    private var fullSince: ContinuousClock.Instant?
    /// The batch that is being gathered was full after its last message.
    private var isFull = false
    private var batchBegun = ContinuousClock.now
    /// Messages that had not been polled when the logs' ends were read last.
    private var backlog: Int64 = 0
    private var backlogRead = ContinuousClock.now
    private var starvation = Starvation()

    var stopReason: ConsumerCommand.StopReason?
    var fatalError: KafkaError?
    var nextCommit = ContinuousClock.now

    /// Longest uninterrupted wait in a poll. Everything that matters wakes it earlier.
    private static let pollMilliseconds: Int32 = 100
    /// Least time between two looks at the ends of all partitions.
    private static let backlogInterval = Duration.milliseconds(20)
    /// Messages between two looks at the clock.
    private static let messagesPerLook = 64

    init(configuration: KafkaConsumerConfiguration, logger: Logger) throws(KafkaError) {
        var logger = logger
        logger[metadataKey: "kafka-group"] = "\(configuration.group)"
        self.configuration = configuration
        self.logger = logger
        callbacks = ClientCallbacks(logger: logger, configuration: configuration.kafka)
        let properties = try ClientProperties(
            .consumer, configuration.kafka, defaults: Self.defaults(configuration.kafka), newer: Self.newerDefaults,
            fixed: Self.fixed(configuration),
            problems: configuration.problems, logs: .polled, callbacks: callbacks, operation: "make a consumer")
        properties.installCommitReports()
        client = try ClientHandle(.consumer, properties: properties, operation: "make a consumer")

        // Logs, errors and delivery of everything else come with the messages, in one queue.
        unsafe rd_kafka_poll_set_consumer(client.pointer)
        unsafe rd_kafka_set_log_queue(client.pointer, nil)
        let wakeup = unsafe Wakeup(polling: rd_kafka_queue_get_consumer(client.pointer))
        self.wakeup = wakeup
        mailbox = ConsumerMailbox(wakeup: wakeup)
        let gathering = BatchGathering(
            builder: BatchBuilder(
                maximumMessages: max(configuration.maximumBatchMessages, 1),
                maximumBytes: configuration.maximumBatchBytes),
            reader: configuration.makeReader?())
        buffer = ConsumerEventBuffer(gathering: gathering) { wakeup.signal() }
    }

    /// For a loop whose thread could not be started.
    func discard() {
        wakeup.close()
        client.destroy(closing: false, keeping: callbacks)
    }

    /// The poll thread.
    func run() {
        callbacks.owner = self
        while stopReason == nil {
            turned()
            serveCommands()
            serveCommits()
            guard stopReason == nil else { break }
            // Not only when a batch waits for room: giving up a partition may have emptied the batches that wait.
            if isHolding, buffer.pendingBatches < configuration.bufferedBatches { release() }
            if buffer.isFull { makeRoom() } else { fill() }
        }
        close()
        callbacks.owner = nil
        lastTurn.withLock { $0 = nil }
        completion.complete()
    }

    /// The thread has come round.
    func turned() {
        lastTurn.withLock { $0 = .now }
    }

    // MARK: Polling

    /// Polls until there is something else to do.
    private func fill() {
        var polled = 0
        isFull = false
        while !isFull, !wakeup.isPending, stopReason == nil {
            // The receiver is waiting: what there is goes out now. While it is busy, messages gather until it comes for them.
            let isWanted = buffer.owesBatch
            if poll(isWanted ? 0 : starvation.wait(atMost: Self.pollMilliseconds)) {
                polled += 1
                starvation.ended()
                if polled % Self.messagesPerLook == 0, isWanted,
                    batchBegun.duration(to: .now) >= configuration.maximumWait
                {
                    buffer.flush()
                }
            } else if isWanted {
                buffer.flush()
            } else {
                // Woken for something else, not for want of messages.
                if !wakeup.isPending, starvation.mayAsk { starvation.asked(isHolding ? false : wakeFetcher()) }
                return
            }
        }
    }

    /// librdkafka stops fetching when its queue is full, and looks only every so often (a second, where
    /// `fetch.queue.backoff.ms` is not known) whether there is room again; meanwhile the queue runs empty. Any request to the
    /// broker makes it look at once.
    ///
    /// - Returns: whether the log has more than what was read, so that it was asked.
    private func wakeFetcher() -> Bool {
        for state in tracker.running {
            guard let next = state.next, let end = end(of: state.place), end > next else { continue }
            var low: Int64 = 0
            var high: Int64 = 0
            _ = unsafe rd_kafka_query_watermark_offsets(
                client.pointer, state.place.topic, state.place.partition, &low, &high, Starvation.limitMilliseconds)
            return true
        }
        return false
    }

    /// Counts the messages of all logs that have not been polled.
    private func readBacklog() {
        backlogRead = batchBegun
        backlog = tracker.running.reduce(0) { sum, state in
            guard let next = state.next, let end = end(of: state.place) else { return sum }
            return sum + max(0, end - next)
        }
    }

    /// End of a partition's log as of the latest fetch; nil while it is not known.
    func end(of place: TopicPartition) -> Int64? {
        var low: Int64 = 0
        var high: Int64 = 0
        let response = unsafe rd_kafka_get_watermark_offsets(client.pointer, place.topic, place.partition, &low, &high)
        return response == RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0 ? high : nil
    }

    /// The batch is full: hands it over, or waits for the receiver.
    private func makeRoom() {
        // Before the look, so that a receiver that takes something after it tells.
        buffer.wantsRoom = true
        if buffer.pendingBatches < configuration.bufferedBatches {
            buffer.flush()
            fullSince = nil
            buffer.wantsRoom = isHolding
        } else if isHolding {
            // Serves callbacks.
            _ = poll(Self.pollMilliseconds)
        } else {
            let since = fullSince ?? .now
            fullSince = since
            let waited = since.duration(to: .now)
            if waited >= configuration.pauseDelay {
                hold()
            } else {
                wakeup.wait(atMost: configuration.pauseDelay - waited)
            }
        }
    }

    /// Takes one message or serves one callback; false if nothing came in time.
    func poll(_ milliseconds: Int32) -> Bool {
        guard let message = unsafe rd_kafka_consumer_poll(client.pointer, milliseconds) else { return false }
        defer { unsafe rd_kafka_message_destroy(message) }
        if unsafe message.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR {
            unsafe received(message)
        } else {
            unsafe failed(message)
        }
        return true
    }

    private func received(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        let index = unsafe indexCache.index(
            topic: message.pointee.rkt, partition: message.pointee.partition, in: tracker)
        let offset = unsafe message.pointee.offset
        switch index.map({ tracker.accept(offset: offset, at: $0) }) ?? .stale {
        case .deliver:
            break
        case .deliverAfterGap(let missing):
            counters.withLock { $0.gaps += 1 }
            logger.debug(
                "the log has no messages at some offsets",
                metadata: unsafe place(of: message).merging(["missing": "\(missing)"]) { $1 })
        case .stale:
            counters.withLock { $0.stale += 1 }
            return
        case .verify(let next):
            guard let index else { return }
            verify(index, from: next, seen: offset)
            return
        }
        guard let index else { return }
        if buffer.isEmpty {
            batchBegun = .now
            if backlogRead.duration(to: batchBegun) >= Self.backlogInterval { readBacklog() }
        }
        let topicIndex = tracker.topicIndex(at: index)
        isFull = buffer.gather { [backlog] gathering in
            if gathering.isEmpty { gathering.backlog = backlog }
            unsafe gathering.builder.append(message, topicIndex: topicIndex)
            gathering.readLast()
        }
    }

    /// A hole right behind a moved position: reads again from where it begins.
    private func verify(_ index: Int, from next: Int64, seen offset: Int64) {
        let state = tracker.state(at: index)
        counters.withLock { $0.verifications += 1 }
        logger.debug(
            "reading a hole in the offsets again before believing it",
            metadata: ["partition": "\(state.place)", "from": "\(next)", "to": "\(offset)"])
        reposition([state.place: .at(next)])
    }

    // MARK: Back-pressure

    private func hold() {
        isHolding = true
        buffer.wantsRoom = true
        counters.withLock { $0.pauses += 1 }
        setPaused(true, tracker.all.map(\.place))
        logger.debug("fetching is paused: the receiver is slow")
    }

    private func release() {
        isHolding = false
        buffer.wantsRoom = false
        // Prefetched messages are dropped and fetched again: check that the offsets follow on.
        tracker.distrustPositions()
        setPaused(false, tracker.all.map(\.place))
        logger.debug("fetching goes on")
    }

    func setPaused(_ isPaused: Bool, _ places: [TopicPartition]) {
        guard !places.isEmpty else { return }
        let list = PartitionList(places)
        let response =
            unsafe isPaused
            ? rd_kafka_pause_partitions(client.pointer, list.pointer)
            : rd_kafka_resume_partitions(client.pointer, list.pointer)
        guard response != RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        logger.warning(
            "partitions could not be \(isPaused ? "paused" : "resumed")",
            metadata: ["code": "\(KafkaError.Code(response))"])
    }
}

/// Finds a partition's index in the tracker by librdkafka's topic pointer, without making a string for each message.
/// Valid until the assignment changes: so long the topics of assigned partitions stay.
struct PartitionIndexCache {
    private struct Key: Hashable {
        var topic: UInt
        var partition: Int32
    }

    private var last: (key: Key, index: Int)?
    private var indices: [Key: Int] = [:]

    mutating func index(topic: OpaquePointer?, partition: Int32, in tracker: PartitionTracker) -> Int? {
        guard let topic = unsafe topic else { return nil }
        let key = Key(topic: UInt(bitPattern: topic), partition: partition)
        if let last, last.key == key { return last.index }
        if let index = indices[key] {
            last = (key, index)
            return index
        }
        let place = TopicPartition(topic: unsafe String(cString: rd_kafka_topic_name(topic)), partition: partition)
        guard let index = tracker.index(of: place) else { return nil }
        indices[key] = index
        last = (key, index)
        return index
    }

    mutating func removeAll() {
        last = nil
        indices = [:]
    }
}
