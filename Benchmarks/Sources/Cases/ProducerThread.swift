// SPDX-License-Identifier: Apache-2.0

import CRdKafka
import Logging

@testable import KafkaClient

/// The producer thread without a cluster, whose time and batches would differ from run to run. It moves
/// messages as ``ProducerLoop`` does. librdkafka returns the messages, unsent, when it has accepted all of them.
///
/// `@unchecked Sendable`: used by one run after the other.
final class ProducerThread: @unchecked Sendable {
    private let client: ClientHandle
    private var messages = MessagesUnderWay(maximumMessages: 100_000, maximumBytes: 64 << 20)
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
        self.messages.waiting.append(SendBatch(messages))
        guard self.messages.handOver(to: client, nil).finished.isEmpty else { return 0 }
        unsafe rd_kafka_purge(client.pointer, RD_KAFKA_PURGE_F_QUEUE)
        while !self.messages.isEmpty { _ = unsafe rd_kafka_poll(client.pointer, 1_000) }
        return self.messages.bytes == 0 ? finished : 0
    }

    private func delivered(_ message: UnsafePointer<rd_kafka_message_t>) {
        let batch = unsafe messages.complete(Int(bitPattern: message.pointee._private)) { _ in
            // As if a broker had stored it.
            unsafe .success(KafkaDelivery(partition: message.pointee.partition, offset: 1))
        }
        guard let batch else { return }
        messages.remove(batch)
        finished = batch.messages.count
    }
}
