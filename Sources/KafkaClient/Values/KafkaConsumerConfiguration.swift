/// Brokers of a consumer and the size of its batches.
package struct KafkaConsumerConfiguration: Sendable {
    package var kafka: KafkaConfiguration
    /// The group under which offsets are committed for lag tools. It is never joined.
    package var group: String
    /// A batch has at most this many messages …
    package var maximumBatchMessages: Int
    /// … and stops growing once its keys, values and headers have this many bytes (one message may exceed it).
    package var maximumBatchBytes: Int
    /// How long a batch may grow while the receiver waits and messages keep coming. When no message is there, or when
    /// the batch is full, it goes out at once.
    package var maximumWait: Duration
    /// Full batches that may wait for the receiver.
    package var bufferedBatches: Int
    /// How long a receiver may take over a batch before fetching is paused. A pause throws prefetched messages away,
    /// which are fetched again later; so a receiver that is merely slower than Kafka must not cause one at each batch.
    package var pauseDelay: Duration
    /// Makes what reads the messages on the poll thread.
    package var makeReader: (@Sendable () -> any KafkaMessageReader)?

    package init(
        kafka: KafkaConfiguration, group: String, maximumBatchMessages: Int = 4096,
        maximumBatchBytes: Int = 4 << 20, maximumWait: Duration = .milliseconds(2), bufferedBatches: Int = 2,
        pauseDelay: Duration = .milliseconds(500)
    ) {
        self.kafka = kafka
        self.group = group
        self.maximumBatchMessages = maximumBatchMessages
        self.maximumBatchBytes = maximumBatchBytes
        self.maximumWait = maximumWait
        self.bufferedBatches = bufferedBatches
        self.pauseDelay = pauseDelay
    }

    /// Invalid values, each with the name of its field.
    var problems: [String] {
        var problems: [String] = []
        if group.isEmpty { problems.append("group: must not be empty") }
        if maximumBatchMessages < 1 { problems.append("maximumBatchMessages: must be at least 1") }
        if maximumBatchBytes < 1 || maximumBatchBytes > 1 << 30 {
            problems.append("maximumBatchBytes: must be from 1 byte to 1 GiB")
        }
        if bufferedBatches < 1 { problems.append("bufferedBatches: must be at least 1") }
        if maximumWait < .zero { problems.append("maximumWait: must not be negative") }
        if pauseDelay < .zero { problems.append("pauseDelay: must not be negative") }
        return problems
    }
}
