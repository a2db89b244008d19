/// Topics of a consumer and the size of its batches.
package struct KafkaConsumerConfiguration: Sendable {
    package var kafka: KafkaConfiguration
    /// The consumer group.
    package var group: String
    /// The topics to read; a name that starts with `^` is a regular expression.
    package var topics: [String]
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
    /// How long a revocation waits for ``KafkaRevocation/acknowledge()`` before the partitions are given up all the
    /// same.
    package var revocationTimeout: Duration
    /// Makes this a static member of the group (`group.instance.id`).
    package var groupInstanceID: String?
    /// Makes what reads the messages on the poll thread.
    package var makeReader: (@Sendable () -> any KafkaMessageReader)?

    package init(
        kafka: KafkaConfiguration, group: String, topics: [String], maximumBatchMessages: Int = 4096,
        maximumBatchBytes: Int = 4 << 20, maximumWait: Duration = .milliseconds(2), bufferedBatches: Int = 2,
        pauseDelay: Duration = .milliseconds(500), revocationTimeout: Duration = .seconds(10),
        groupInstanceID: String? = nil
    ) {
        self.kafka = kafka
        self.group = group
        self.topics = topics
        self.maximumBatchMessages = maximumBatchMessages
        self.maximumBatchBytes = maximumBatchBytes
        self.maximumWait = maximumWait
        self.bufferedBatches = bufferedBatches
        self.pauseDelay = pauseDelay
        self.revocationTimeout = revocationTimeout
        self.groupInstanceID = groupInstanceID
    }

    /// Invalid values, each with the name of its field.
    var problems: [String] {
        var problems: [String] = []
        if group.isEmpty { problems.append("group: must not be empty") }
        if topics.isEmpty { problems.append("topics: at least one is needed") }
        if topics.contains("") { problems.append("topics: a name must not be empty") }
        if maximumBatchMessages < 1 { problems.append("maximumBatchMessages: must be at least 1") }
        if maximumBatchBytes < 1 || maximumBatchBytes > 1 << 30 {
            problems.append("maximumBatchBytes: must be from 1 byte to 1 GiB")
        }
        if bufferedBatches < 1 { problems.append("bufferedBatches: must be at least 1") }
        if maximumWait < .zero { problems.append("maximumWait: must not be negative") }
        if pauseDelay < .zero { problems.append("pauseDelay: must not be negative") }
        if groupInstanceID == "" { problems.append("groupInstanceID: must not be empty") }
        if revocationTimeout < .zero { problems.append("revocationTimeout: must not be negative") }
        return problems
    }
}
