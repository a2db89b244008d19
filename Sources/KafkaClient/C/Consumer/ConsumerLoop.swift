internal import CRdKafka
internal import Logging
internal import Synchronization

/// The consumer's poll thread. It alone polls, moves positions, and uses the mutable state.
///
/// `@unchecked Sendable`: `run` executes on one thread, which also runs every callback, from within its polls. The
/// members used from elsewhere (`mailbox`, `buffer`, `counters`, `completion`, `client`) are Sendable themselves. The
/// thread keeps the instance alive until the client is destroyed.
final class ConsumerLoop: @unchecked Sendable {
    let mailbox: ConsumerMailbox
    let buffer: ConsumerEventBuffer
    let counters = Mutex(KafkaConsumerCounters())
    let completion = Completion()
    /// Time of the thread's last turn; nil when it has ended.
    let lastTurn = Mutex<ContinuousClock.Instant?>(.now)

    let configuration: KafkaConsumerConfiguration
    let logger: Logger
    let client: ClientHandle
    let wakeup: Wakeup

    var tracker = PartitionTracker()
    var indexCache = PartitionIndexCache()
    /// Topics whose leaders librdkafka has requested.
    var knownTopics: Set<String> = []
    /// Whether fetching is paused because the receiver is slow.
    var isHolding = false
    private var fullSince: ContinuousClock.Instant?
    /// Whether the gathered batch was full after its last message.
    private var isFull = false
    private var batchBegun = ContinuousClock.now
    /// Unpolled messages at the last reading of the logs' ends.
    private var backlog: Int64 = 0
    private var backlogRead = ContinuousClock.now
    private var starvation = Starvation()
    /// Ends of logs behind offsets without messages that have not been reported yet.
    var advanced: [TopicPartition: Int64] = [:]
    var unreadable = UnreadableBatches()
    var errorLimit = ErrorLimit()
    /// Stopped partitions whose fetches are paused.
    var pausedPlaces: Set<TopicPartition> = []
    private var nextAdvance = ContinuousClock.now

    var stopReason: ConsumerCommand.StopReason?
    var fatalError: KafkaError?
    var nextCommit = ContinuousClock.now

    /// Longest uninterrupted wait in a poll. Commands and messages end it earlier.
    private static let pollMilliseconds: Int32 = 100
    /// Least time between two readings of all logs' ends.
    private static let backlogInterval = Duration.milliseconds(20)
    /// Least time between two reports of ends of logs.
    private static let advanceInterval = Duration.seconds(1)
    /// Messages between two readings of the clock.
    private static let messagesPerLook = 64

    init(configuration: KafkaConsumerConfiguration, logger: Logger) throws(KafkaError) {
        var logger = logger
        logger[metadataKey: "kafka-group"] = "\(configuration.group)"
        self.configuration = configuration
        self.logger = logger
        client = try ClientHandle(
            .consumer, configuration.kafka, defaults: Self.defaults(configuration.kafka), newer: Self.newerDefaults,
            fixed: Self.fixed(configuration),
            problems: configuration.problems, pollsLogs: true, logger: logger, operation: "make a consumer")

        // One queue carries messages, logs and errors.
        unsafe rd_kafka_poll_set_consumer(client.pointer)
        unsafe rd_kafka_set_log_queue(client.pointer, nil)
        let wakeup = unsafe Wakeup(polling: rd_kafka_queue_get_consumer(client.pointer))
        self.wakeup = wakeup
        mailbox = ConsumerMailbox(wakeup: wakeup)
        let gathering = BatchGathering(
            builder: BatchBuilder(
                maximumMessages: max(configuration.maximumBatchMessages, 1),
                maximumBytes: configuration.maximumBatchBytes))
        buffer = ConsumerEventBuffer(gathering: gathering) { wakeup.signal() }
    }

    /// Frees a loop whose thread could not be started.
    func discard() {
        wakeup.close()
        client.destroy(closing: false)
    }

    /// Body of the poll thread.
    func run() {
        client.callbacks.owner = self
        while stopReason == nil {
            noteTurn()
            serveCommands()
            serveCommits()
            guard stopReason == nil else { break }
            // Also without a batch that waits for room: giving up a partition may have emptied the waiting batches.
            if isHolding, buffer.pendingBatches < configuration.bufferedBatches { release() }
            if !advanced.isEmpty, nextAdvance <= .now, buffer.pendingBatches < configuration.bufferedBatches {
                nextAdvance = .now + Self.advanceInterval
                reportAdvanced()
            }
            serveUnreadable()
            if buffer.isFull { makeRoom() } else { fill() }
        }
        close()
        lastTurn.withLock { $0 = nil }
        completion.complete()
    }

    /// Notes a turn of the thread.
    func noteTurn() {
        lastTurn.withLock { $0 = .now }
    }

    // MARK: Polling

    /// Polls until the batch is full, a command waits, or no message comes.
    private func fill() {
        var polled = 0
        isFull = false
        while !isFull, !wakeup.isPending, stopReason == nil {
            // A waiting receiver gets the gathered messages at once; while it is busy, they gather.
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
                // Without a wake-up, the poll has ended for want of messages.
                if !wakeup.isPending, starvation.mayAsk { starvation.asked(isHolding ? false : wakeFetcher()) }
                return
            }
        }
    }

    /// Makes librdkafka fetch again. It stops fetching when its queue is full and checks for room at intervals (a
    /// second without `fetch.queue.backoff.ms`), while the queue runs empty. Any request to the broker makes it check
    /// at once.
    ///
    /// - Returns: whether a log has unread messages, so that a request was made.
    private func wakeFetcher() -> Bool {
        for state in tracker.running {
            guard unread(state) > 0 else { continue }
            _ = queryBounds(of: state.place)
            return true
        }
        return false
    }

    /// Asks a partition's leader for the bounds of what can be read; nil if it does not answer soon.
    func queryBounds(of place: TopicPartition) -> KafkaLogBounds? {
        var low: Int64 = 0
        var high: Int64 = 0
        let response = unsafe rd_kafka_query_watermark_offsets(
            client.pointer, place.topic, place.partition, &low, &high, Starvation.limitMilliseconds)
        return response == RD_KAFKA_RESP_ERR_NO_ERROR ? KafkaLogBounds(earliest: low, end: high) : nil
    }

    /// Counts the unpolled messages of all logs.
    private func readBacklog() {
        backlogRead = batchBegun
        backlog = tracker.running.reduce(0) { $0 + unread($1) }
    }

    /// Number of messages behind a partition's position as of the latest fetch. Messages behind the start of an open
    /// transaction, which cannot be read yet, do not count once the log has been read up to there.
    func unread(_ state: PartitionTracker.State) -> Int64 {
        guard !state.isAtEnd, let next = state.next, let bounds = bounds(of: state.place) else { return 0 }
        return max(0, bounds.end - next)
    }

    /// Bounds of a partition's log as of the latest fetch; nil while they are unknown.
    func bounds(of place: TopicPartition) -> KafkaLogBounds? {
        var low: Int64 = 0
        var high: Int64 = 0
        let response = unsafe rd_kafka_get_watermark_offsets(client.pointer, place.topic, place.partition, &low, &high)
        return response == RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0 ? KafkaLogBounds(earliest: low, end: high) : nil
    }

    /// Hands the full batch over, or waits for the receiver.
    private func makeRoom() {
        // Set before the check, so that a receiver that takes a batch afterwards signals.
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
        if let index, let known = tracker.state(at: index).known, unsafe !isOfLog(message, known, index) { return }
        switch index.map({ tracker.accept(offset: offset, at: $0) }) ?? .stale {
        case .deliver:
            break
        case .deliverAfterGap(let missing):
            counters.withLock { $0.gaps += 1 }
            logger.debug(
                "the log has no messages at some offsets",
                metadata: unsafe place(of: message).merging(["missing": "\(missing)"]) { $1 })
        case .stale:
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
        let topicIndex = tracker.state(at: index).topicIndex
        isFull = buffer.gather { [backlog] gathering in
            if gathering.isEmpty { gathering.backlog = backlog }
            unsafe gathering.builder.append(message, topicIndex: topicIndex)
        }
    }

    /// Notes that a log was read to its end. librdkafka's position there is behind markers of transactions and aborted
    /// messages, which it does not deliver.
    func reachedEnd(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        guard
            let index = unsafe indexCache.index(
                topic: message.pointee.rkt, partition: message.pointee.partition, in: tracker)
        else { return }
        let offset = unsafe message.pointee.offset
        let state = tracker.state(at: index)
        if state.phase == .running, state.known != nil {
            if let next = state.next, offset < next {
                return leaveRange(state.place, at: next, "the log ends at \(offset)")
            }
            tracker.confirmLog(index)
        }
        switch tracker.acceptEnd(offset, at: index) {
        case .deliver, .stale: break
        case .deliverAfterGap: advanced[tracker.state(at: index).place] = offset
        case .verify(let next): verify(index, from: next, seen: offset)
        }
    }

    /// Reports the noted ends of logs behind the gathered messages.
    func reportAdvanced() {
        guard !advanced.isEmpty else { return }
        buffer.flush()
        buffer.push(.advanced(advanced))
        advanced = [:]
    }

    /// Reads a hole right behind a moved position a second time.
    private func verify(_ index: Int, from next: Int64, seen offset: Int64) {
        let state = tracker.state(at: index)
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
        setPaused(true, tracker.running.map(\.place))
        logger.debug("fetching is paused: the receiver is slow")
    }

    private func release() {
        isHolding = false
        buffer.wantsRoom = false
        // Prefetched messages are dropped and fetched again.
        tracker.distrustPositions()
        setPaused(false, tracker.running.map(\.place))
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
