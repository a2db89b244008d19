// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka
internal import Logging
internal import Synchronization

/// The consumer's poll thread. It alone polls, moves positions, and uses the mutable state.
///
/// `@unchecked Sendable`: `run` executes on one thread, which also runs every callback, from within its polls. The
/// members used from elsewhere (`mailbox`, `events`, `counters`, `completion`, `client`) are Sendable themselves. The
/// thread keeps the instance alive until the client is destroyed.
final class ConsumerLoop: @unchecked Sendable {
    let mailbox: ConsumerMailbox
    let events: KafkaConsumerEvents
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
    /// Times of the latest reports of errors of partitions, which librdkafka raises for each fetch.
    private var reportedErrors: [TopicPartition: [KafkaError.Code: ContinuousClock.Instant]] = [:]
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
        events = KafkaConsumerEvents(
            builder: BatchBuilder(
                maximumMessages: max(configuration.maximumBatchMessages, 1),
                maximumBytes: configuration.maximumBatchBytes)
        ) { wakeup.signal() }
    }

    /// Frees a loop whose thread could not be started.
    func discard() {
        wakeup.close()
        client.destroy(closing: false)
    }

    /// Body of the poll thread.
    func run() {
        client.callbacks.onError = { self.errorRaised($0, reason: $1) }
        while stopReason == nil {
            noteTurn()
            serveCommands()
            serveCommits()
            guard stopReason == nil else { break }
            // Also without a batch that waits for room: giving up a partition may have emptied the waiting batches.
            if isHolding, events.pendingBatches < configuration.bufferedBatches { release() }
            if !advanced.isEmpty, nextAdvance <= .now, events.pendingBatches < configuration.bufferedBatches {
                nextAdvance = .now + Self.advanceInterval
                reportAdvanced()
            }
            serveUnreadable()
            if events.isFull { makeRoom() } else { fill() }
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
            let isWanted = events.owesBatch
            if poll(isWanted ? 0 : starvation.wait(atMost: Self.pollMilliseconds)) {
                polled += 1
                starvation.reset()
                if polled % Self.messagesPerLook == 0, isWanted,
                    batchBegun.duration(to: .now) >= configuration.maximumWait
                {
                    events.flush()
                }
            } else if isWanted {
                events.flush()
            } else {
                // Without a wake-up, the poll has ended for want of messages.
                if !wakeup.isPending, starvation.mayAsk {
                    starvation.recordCheck(isBehind: isHolding ? false : wakeFetcher())
                }
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
    func queryBounds(of place: TopicPartition) -> Range<Int64>? {
        var low: Int64 = 0
        var high: Int64 = 0
        let response = unsafe rd_kafka_query_watermark_offsets(
            client.pointer, place.topic, place.partition, &low, &high, Starvation.limitMilliseconds)
        return response == RD_KAFKA_RESP_ERR_NO_ERROR ? low..<max(low, high) : nil
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
        return max(0, bounds.upperBound - next)
    }

    /// Bounds of a partition's log as of the latest fetch; nil while they are unknown.
    func bounds(of place: TopicPartition) -> Range<Int64>? {
        var low: Int64 = 0
        var high: Int64 = 0
        let response = unsafe rd_kafka_get_watermark_offsets(client.pointer, place.topic, place.partition, &low, &high)
        return response == RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0 ? low..<max(low, high) : nil
    }

    /// Hands the full batch over, or waits for the receiver.
    private func makeRoom() {
        // Set before the check, so that a receiver that takes a batch afterwards signals.
        events.wantsRoom = true
        if events.pendingBatches < configuration.bufferedBatches {
            events.flush()
            fullSince = nil
            events.wantsRoom = isHolding
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
        if events.isEmpty {
            batchBegun = .now
            if backlogRead.duration(to: batchBegun) >= Self.backlogInterval { readBacklog() }
        }
        let topicIndex = tracker.state(at: index).topicIndex
        isFull = events.gather { [backlog] builder in
            if builder.isEmpty { builder.backlog = backlog }
            unsafe builder.append(message, topicIndex: topicIndex)
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
        events.flush()
        events.push(.advanced(advanced))
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
        events.wantsRoom = true
        counters.withLock { $0.pauses += 1 }
        setPaused(true, tracker.running.map(\.place))
        logger.debug("fetching is paused: the receiver is slow")
    }

    private func release() {
        isHolding = false
        events.wantsRoom = false
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

extension ConsumerLoop {
    /// Longest wait for the leaders of new topics.
    private static let metadataMilliseconds: Int32 = 500
    private static let commitInterval = Duration.milliseconds(200)
    /// Time limit of closing.
    private static let closeTimeout = Duration.seconds(10)

    func serveCommands() {
        guard wakeup.isPending else { return }
        wakeup.clear()
        for command in mailbox.takeCommands() {
            // The last positions are committed before the consumer stops.
            if case .stop = command { commit(mailbox.takeCommits()) }
            handle(command)
        }
    }

    /// Commits at intervals: each commit is a request, and only lag tools read them.
    func serveCommits() {
        let now = ContinuousClock.now
        guard now >= nextCommit else { return }
        nextCommit = now + Self.commitInterval
        commit(mailbox.takeCommits())
    }

    private func handle(_ command: ConsumerCommand) {
        switch command {
        case .assign(let offsets, let continuation):
            assign(offsets)
            continuation.resume()
        case .unassign(let places, let continuation):
            unassign(places)
            continuation.resume()
        case .lag(let continuation):
            continuation.resume(returning: lag())
        case .stop(let reason):
            stopReason = max(reason, stopReason ?? reason)
        case .raiseFatalError:
            // On the poll thread: on another one the client might be destroyed during the call.
            unsafe rd_kafka_test_fatal_error(
                client.pointer, RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, "raised for a test")
        }
    }

    private func commit(_ offsets: [TopicPartition: Int64]) {
        let offsets = offsets.filter { tracker[$0.key] != nil && $0.value >= 0 }
        guard !offsets.isEmpty, stopReason == nil else { return }
        let list = PartitionList(offsets)
        // Asynchronous.
        let response = unsafe rd_kafka_commit(client.pointer, list.pointer, 1)
        guard response != RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        logger.debug(
            "offsets were not committed (for lag tools only)", metadata: ["code": "\(KafkaError.Code(response))"])
    }

    private func lag() -> [TopicPartition: Int64] {
        var lag: [TopicPartition: Int64] = [:]
        for state in tracker.running where state.next != nil { lag[state.place] = unread(state) }
        return lag
    }

    // MARK: End

    /// Ends the events and frees the client.
    func close() {
        var isClosed = false
        if stopReason == .abandon {
            events.discard()
        } else {
            events.flush()
            reportAdvanced()
            isClosed = closeInOrder()
            if stopReason == .abandon { events.discard() }
        }
        events.finish(throwing: fatalError)
        for command in mailbox.close() {
            switch command {
            case .assign(_, let continuation), .unassign(_, let continuation): continuation.resume()
            case .lag(let continuation): continuation.resume(returning: nil)
            case .stop, .raiseFatalError: break
            }
        }
        wakeup.close()
        client.callbacks.onError = nil
        client.destroy(closing: isClosed)
    }

    /// Closes on librdkafka's threads, which send the last commit; false if that did not end in time.
    private func closeInOrder() -> Bool {
        let queue = unsafe rd_kafka_queue_new(client.pointer)
        defer { unsafe rd_kafka_queue_destroy(queue) }
        let error = unsafe KafkaError(
            taking: rd_kafka_consumer_close_queue(client.pointer, queue),
            context: KafkaError.Context(operation: "close"))
        if let error {
            // After a fatal error librdkafka does not close in order.
            guard !error.isFatal else { return false }
            logger.warning("the consumer could not be closed in order", metadata: ["error": "\(error)"])
            return false
        }
        let deadline = ContinuousClock.now + Self.closeTimeout
        while unsafe rd_kafka_consumer_closed(client.pointer) == 0 {
            guard ContinuousClock.now < deadline, stopReason != .abandon else {
                logger.warning("the consumer did not close in time")
                return false
            }
            // Messages that still come are dropped.
            if let message = unsafe rd_kafka_consume_queue(queue, 10) { unsafe rd_kafka_message_destroy(message) }
            noteTurn()
            serveCommands()
        }
        return true
    }
}

extension ConsumerLoop {
    /// Fetches partitions from these offsets on; partitions that are fetched already are moved.
    func assign(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        forget(Set(offsets.keys))
        let byPhase = Dictionary(grouping: offsets) { tracker[$0.key]?.phase }.mapValues {
            Dictionary($0.map { ($0.key, $0.value) }) { $1 }
        }
        let added = byPhase[nil] ?? [:]
        tracker.assign(added.keys.sorted())
        let topics = tracker.topics
        _ = events.gather { $0.topics = topics }
        add(added)
        reposition(byPhase[.running] ?? [:])
        reassign(byPhase[.stalled] ?? [:])
        for (place, offset) in offsets { tracker.move(place, to: offset) }
        if isHolding { setPaused(true, Array(offsets.keys)) }
        if !added.isEmpty { logger.info("partitions assigned", metadata: ["partitions": "\(added.keys.summary)"]) }
    }

    /// Stops fetching partitions and drops their buffered messages.
    func unassign(_ places: [TopicPartition]) {
        let places = places.filter { tracker[$0] != nil }
        guard !places.isEmpty else { return }
        forget(Set(places))
        // A partition that is assigned again later must not be paused.
        if isHolding { setPaused(false, places) }
        remove(places)
        tracker.revoke(places)
        assignmentChanged()
        logger.info("partitions given up", metadata: ["partitions": "\(places.summary)"])
    }

    /// Drops the messages and ends of partitions that have not been received yet.
    private func forget(_ places: Set<TopicPartition>) {
        events.remove(places)
        for place in places { advanced[place] = nil }
        unreadable.forget(places)
        resumeStalled(places)
    }

    /// Moves fetched partitions.
    func reposition(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        let list = PartitionList(offsets.mapValues(\.number))
        check(
            unsafe KafkaError(
                taking: rd_kafka_seek_partitions(client.pointer, list.pointer, Self.seekMilliseconds),
                context: KafkaError.Context(operation: "seek")))
        // A partition that librdkafka has stopped or not started cannot seek: it is assigned anew.
        let refused = Set(list.failures().map(\.place))
        reassign(offsets.filter { refused.contains($0.key) })
    }

    func reassign(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        remove(Array(offsets.keys))
        add(offsets)
        if isHolding { setPaused(true, Array(offsets.keys)) }
    }

    private func add(_ offsets: [TopicPartition: KafkaOffset]) {
        guard !offsets.isEmpty else { return }
        learnLeaders(of: Set(offsets.keys.map(\.topic)))
        let list = PartitionList(offsets.mapValues(\.number))
        let error = unsafe KafkaError(
            taking: rd_kafka_incremental_assign(client.pointer, list.pointer),
            context: KafkaError.Context(operation: "assign"))
        if let error {
            // The owner has to make another consumer, since it believes that the partitions are read.
            report(error)
            fatalError = fatalError ?? error
            stopReason = stopReason ?? .shutdown
        }
        assignmentChanged()
    }

    /// Requests the leaders of topics that are new to the client. Otherwise librdkafka requests them up to a second
    /// after the assignment, and looks up the first offset up to half a second later. It does so too if this request
    /// fails.
    private func learnLeaders(of topics: Set<String>) {
        let new = topics.subtracting(knownTopics)
        guard !new.isEmpty else { return }
        var handles = unsafe new.compactMap { unsafe rd_kafka_topic_new(client.pointer, $0, nil) }
        defer { while let handle = unsafe handles.popLast() { unsafe rd_kafka_topic_destroy(handle) } }
        var metadata: UnsafePointer<rd_kafka_metadata>?
        let response = unsafe rd_kafka_metadata(client.pointer, 0, nil, &metadata, Self.metadataMilliseconds)
        unsafe rd_kafka_metadata_destroy(metadata)
        if response == RD_KAFKA_RESP_ERR_NO_ERROR { knownTopics.formUnion(new) }
    }

    private func remove(_ places: [TopicPartition]) {
        let list = PartitionList(places)
        check(
            unsafe KafkaError(
                taking: rd_kafka_incremental_unassign(client.pointer, list.pointer),
                context: KafkaError.Context(operation: "unassign")))
    }

    /// Notes that librdkafka may have dropped the prefetched messages of all partitions.
    private func assignmentChanged() {
        tracker.distrustPositions()
        indexCache.removeAll()
    }

    private static let seekMilliseconds: Int32 = 5000

    private func check(_ error: KafkaError?) {
        if let error { report(error) }
    }
}

extension ConsumerLoop {
    /// Handles a condition from which librdkafka recovers itself, or a fatal error.
    func errorRaised(_ response: rd_kafka_resp_err_t, reason: String) {
        if response == RD_KAFKA_RESP_ERR__FATAL {
            guard fatalError == nil, let error = KafkaError.fatal(of: client, operation: "consume") else { return }
            fatalError = error
            logger.error("the consumer has failed for good", metadata: ["error": "\(error.message)"])
            stopReason = stopReason ?? .shutdown
            return
        }
        report(KafkaError(response, message: reason, context: KafkaError.Context(operation: "consume")))
    }

    /// Handles an error that came in a message's place.
    func failed(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        let response = unsafe message.pointee.err
        switch response {
        case RD_KAFKA_RESP_ERR__PARTITION_EOF:
            unsafe reachedEnd(message)
        case RD_KAFKA_RESP_ERR__FATAL:
            errorRaised(response, reason: "")
        case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
            unsafe outOfRange(message)
        default:
            let topic = unsafe message.pointee.rkt.map { unsafe String(cString: rd_kafka_topic_name($0)) }
            let partition = unsafe message.pointee.partition
            let reason = unsafe rd_kafka_message_errstr(message).map { unsafe String(cString: $0) }
            let error = KafkaError(
                response, message: reason,
                context: KafkaError.Context(
                    operation: "consume", topic: topic, partition: partition < 0 ? nil : partition))
            if error.isUnreadableBatch {
                unsafe notRead(message, error)
            } else if isToReport(error) {
                report(error)
            }
        }
    }

    /// Whether to report an error that librdkafka returned in place of a message. Errors of a topic are always
    /// reported, errors of a partition once a minute.
    private func isToReport(_ error: KafkaError) -> Bool {
        guard let topic = error.context.topic, let partition = error.context.partition,
            ![.topicAuthorizationFailed, .unknownTopicOrPartition].contains(error.code)
        else { return true }
        let place = TopicPartition(topic: topic, partition: partition)
        if let last = reportedErrors[place]?[error.code], last.duration(to: .now) < .seconds(60) { return false }
        reportedErrors[place, default: [:]][error.code] = .now
        return true
    }

    /// Handles an error of a batch. librdkafka would fetch it again and again, or skip it.
    private func notRead(_ message: UnsafeMutablePointer<rd_kafka_message_t>, _ error: KafkaError) {
        guard
            let index = unsafe indexCache.index(
                topic: message.pointee.rkt, partition: message.pointee.partition, in: tracker)
        else { return }
        // The error names the start of the batch, which may lie before the position.
        let state = tracker.state(at: index)
        let offset = state.next ?? max(0, unsafe message.pointee.offset)
        stopAtUnreadableBatch(state.place, at: offset, reason: error.message)
    }

    private func outOfRange(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        guard
            let index = unsafe indexCache.index(
                topic: message.pointee.rkt, partition: message.pointee.partition, in: tracker)
        else { return }
        let state = tracker.state(at: index)
        guard state.phase == .running else { return }
        // Without an offset from librdkafka, it is the expected one.
        let named = unsafe message.pointee.offset
        if state.known != nil, let next = state.next {
            // The message before the position is not in the log, but the position may be.
            reassign([state.place: .at(next)])
            tracker.move(state.place, to: .at(next))
            return
        }
        leaveRange(
            state.place, at: named >= 0 ? named : state.next ?? named,
            unsafe rd_kafka_message_errstr(message).map { unsafe String(cString: $0) } ?? "")
    }

    /// Stops a partition whose log does not have the next offset.
    func leaveRange(_ place: TopicPartition, at offset: Int64, _ reason: String) {
        pauseStalled(place)
        events.flush()
        logger.error(
            "the log does not have the offset; the partition stands still until it is moved",
            metadata: ["partition": "\(place)", "offset": "\(offset)", "reason": "\(reason)"])
        events.push(.offsetOutOfRange(place, offset: offset))
    }

    /// Compares a message with the one that the log must have, and returns whether it may be accepted. Stops the
    /// partition if the log has another message there.
    func isOfLog(
        _ message: UnsafeMutablePointer<rd_kafka_message_t>, _ known: KafkaFingerprint, _ index: Int
    ) -> Bool {
        let state = tracker.state(at: index)
        let offset = unsafe message.pointee.offset
        guard state.phase == .running, offset >= known.offset else { return false }
        guard offset == known.offset else {
            // Compaction or retention has removed it.
            tracker.confirmLog(index)
            return true
        }
        var builder = BatchBuilder(maximumMessages: 1, maximumBytes: .max, topics: [state.place.topic])
        unsafe builder.append(message, topicIndex: 0)
        guard builder.take()?.fingerprint(0) == known else {
            pauseStalled(state.place)
            events.flush()
            logger.error(
                "the log has another message than before; the partition stands still until it is moved",
                metadata: ["partition": "\(state.place)", "offset": "\(offset)"])
            events.push(.otherLog(state.place, offset: offset))
            return false
        }
        tracker.confirmLog(index)
        // Messages between it and the position have been read before.
        if let next = state.next, next - offset > Self.mostReadAgain { reposition([state.place: .at(next)]) }
        return false
    }

    /// Number of messages up to which those before the position are read again instead of a seek.
    private static var mostReadAgain: Int64 { 1_000 }

    func report(_ error: KafkaError) {
        logger.log(
            level: error.isRetriable ? .notice : .warning, "\(client.callbacks.redact(error.message))",
            metadata: ["code": "\(error.code)", "topic": "\(error.context.topic ?? "-")"])
        events.push(.error(error))
    }

    func place(of message: UnsafeMutablePointer<rd_kafka_message_t>) -> Logger.Metadata {
        let topic = unsafe message.pointee.rkt.map { unsafe String(cString: rd_kafka_topic_name($0)) } ?? ""
        return [
            "partition": "\(TopicPartition(topic: topic, partition: unsafe message.pointee.partition))",
            "offset": "\(unsafe message.pointee.offset)",
        ]
    }
}
