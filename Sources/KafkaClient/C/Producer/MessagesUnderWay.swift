// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka

/// Messages on their way into librdkafka and to their delivery reports. Used on the producer's thread only.
///
/// One value, since the thread changes most of it for each message, and Swift checks each access to a property of a
/// class.
@safe struct MessagesUnderWay {
    let maximumMessages: Int
    let maximumBytes: Int
    /// Sends with messages that wait for room.
    var waiting = SendQueue()
    private(set) var count = 0
    private(set) var bytes = 0

    private var slots = DeliverySlots()
    private var topics = TopicHandles()
    /// Whether librdkafka's queue was full, so that the next delivery is awaited.
    private var isRefused = false

    /// Messages handed over between two polls.
    private static let messagesPerTurn = 4096

    init(maximumMessages: Int, maximumBytes: Int) {
        (self.maximumMessages, self.maximumBytes) = (maximumMessages, maximumBytes)
    }

    var isEmpty: Bool { count == 0 }

    /// Hands waiting messages to librdkafka while there is room.
    ///
    /// - Parameter fatalError: the client's fatal error, if it has raised one.
    /// - Returns: whether it stopped only for a poll, and the sends whose last open message failed.
    mutating func handOver(
        to client: ClientHandle, _ fatalError: KafkaError?
    ) -> (stoppedForPoll: Bool, finished: [SendBatch]) {
        var left = Self.messagesPerTurn
        var finished: [SendBatch] = []
        while let batch = waiting.first, !isRefused {
            // Local, since Swift checks each access to a property of a class.
            let messages = batch.messages
            var index = batch.handedOver
            defer { batch.handedOver = index }
            while index < messages.count {
                let size = messages[index].byteCount
                guard count < maximumMessages, isEmpty || bytes + size <= maximumBytes else { return (false, finished) }
                guard left > 0 else { return (true, finished) }
                left -= 1
                do {
                    try topics.produce(messages[index], tag: slots.insert(batch, index), with: client)
                    count += 1
                    bytes += size
                } catch {
                    // A configured bound of librdkafka may be tighter than this one: the message keeps its place.
                    isRefused = error.code.response == RD_KAFKA_RESP_ERR__QUEUE_FULL && !isEmpty
                    if isRefused { return (false, finished) }
                    let error = fatalError?.about(messages[index]) ?? error
                    if batch.complete(index, .failure(error)) == 0 { finished.append(batch) }
                }
                index += 1
            }
            waiting.removeFirst()
        }
        return (false, finished)
    }

    /// Notes the outcome of a message.
    ///
    /// - Returns: the send if it was its last open message.
    mutating func complete(
        _ tag: Int, _ outcome: (KafkaMessage) -> SendBatch.Outcome
    ) -> SendBatch? {
        guard let (batch, index) = slots.message(tag),
            let open = batch.complete(index, outcome(batch.messages[index]))
        else { return nil }
        isRefused = false
        count -= 1
        bytes -= batch.messages[index].byteCount
        return open == 0 ? batch : nil
    }

    /// Forgets a send without open messages.
    mutating func remove(_ batch: SendBatch) { slots.remove(batch) }

    /// Frees the topics, before the client is destroyed.
    mutating func destroy() { topics.destroy() }
}
