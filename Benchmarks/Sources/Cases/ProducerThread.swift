// SPDX-License-Identifier: Apache-2.0

import CRdKafka
import Logging

@testable import KafkaClient

/// The producer thread without a cluster, whose time and batches would differ from run to run. It uses the parts of
/// ``ProducerLoop`` in the same order. librdkafka returns the messages, unsent, when it has accepted all of them.
///
/// `@unchecked Sendable`: used by one run after the other.
final class ProducerThread: @unchecked Sendable {
    private let client: ClientHandle
    private var topics = TopicHandles()
    private var slots = DeliverySlots()
    private var waiting = SendQueue()
    private var bytesInFlight = 0
    private var finished = 0

    init() throws(KafkaError) {
        let configuration = KafkaConfiguration(bootstrapServers: "none")
        // As a client that connects nowhere.
        client = try ClientHandle(
            .embedded, configuration,
            defaults: [
                "client.id": "freshet", "linger.ms": "5", "compression.codec": "lz4",
                "partitioner": "consistent_random", "queue.buffering.max.messages": "100000",
                "queue.buffering.max.kbytes": "2097151",
            ],
            fixed: ["acks": "all", "message.timeout.ms": "30000", "delivery.report.only.error": "false"],
            pollsLogs: true, logger: Logger(label: "benchmarks") { _ in SwiftLogNoOpLogHandler() },
            operation: "make a producer")
        unsafe rd_kafka_set_log_queue(client.pointer, nil)
        unsafe client.callbacks.onDelivery = { unsafe self.delivered($0) }
    }

    /// Sends messages; answers how many came to an end.
    func send(_ messages: [KafkaMessage]) -> Int {
        finished = 0
        waiting.append(SendBatch(messages))
        while let batch = waiting.first {
            let message = batch.messages[batch.handedOver]
            let size = message.byteCount
            let slot = slots.insert(DeliverySlot(batch: batch, index: batch.handedOver, size: size))
            do {
                try topics.produce(message, tag: slot, with: client)
                bytesInFlight += size
            } catch {
                slots.remove(slot)
                return 0
            }
            batch.advance()
            if batch.waiting == 0 { waiting.removeFirst() }
        }
        unsafe rd_kafka_purge(client.pointer, RD_KAFKA_PURGE_F_QUEUE)
        while !slots.isEmpty { _ = unsafe rd_kafka_poll(client.pointer, 1_000) }
        return bytesInFlight == 0 ? finished : 0
    }

    private func delivered(_ message: UnsafePointer<rd_kafka_message_t>) {
        guard let slot = unsafe slots.remove(Int(bitPattern: message.pointee._private)) else { return }
        bytesInFlight -= slot.size
        // As if a broker had stored it.
        let outcome = unsafe SendBatch.Outcome.success(KafkaDelivery(partition: message.pointee.partition, offset: 1))
        if slot.batch.complete(slot.index, outcome) { finished = slot.batch.messages.count }
    }
}
