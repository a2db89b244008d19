package import Logging
internal import Synchronization

/// librdkafka's in-process cluster: brokers that speak the real protocol over TCP on the loopback interface, with
/// faults on demand. For tests and the demo.
///
/// Differences from a real cluster:
/// - It keeps at most 5 MiB or 100,000 batches a partition and **silently drops the oldest**: a consumer that is too
///   slow gets `offsetOutOfRange`, so producers must hold back.
/// - It ignores a producer's sequence numbers. A message that it has stored, and is cut off before it could say so, is
///   stored again by the retry. And were several requests under way, it would take the later one although the earlier
///   one failed, from which librdkafka concludes that both are stored; therefore ``clientProperties`` allow one request
///   at a time.
/// - It knows neither topic administration, nor compaction, SASL, TLS.
/// - It answers a fetch with one message set of each partition at most, and walks through all that it keeps of a partition to
///   find it: it is no measure of a real broker, and the slower the more it has stored.
/// - Producing to or reading a topic that is not there creates it with 4 partitions, whatever clients say.
package final class EmbeddedKafka: Sendable {
    private let cluster: MockCluster

    /// - Parameter brokers: their ids are 1, 2, …
    package init(brokers: Int = 1, logger: Logger) throws(KafkaError) {
        cluster = try MockCluster(brokers: brokers, logger: logger)
    }

    deinit { cluster.close() }

    /// The brokers' addresses.
    package var bootstrapServers: String { cluster.bootstrapServers }

    /// How clients reach it: the addresses and ``clientProperties``.
    package var configuration: KafkaConfiguration {
        KafkaConfiguration(bootstrapServers: bootstrapServers, properties: Self.clientProperties)
    }

    /// Properties that make clients of it quick: an empty fetch is answered only when the wait is over, so this is the
    /// latency; and clients recover from failures within fractions of a second.
    package static let clientProperties: [String: String] = [
        "fetch.wait.max.ms": "2",
        "fetch.error.backoff.ms": "20",
        "reconnect.backoff.ms": "20",
        "reconnect.backoff.max.ms": "200",
        "retry.backoff.ms": "20",
        "topic.metadata.refresh.fast.interval.ms": "50",
        "topic.metadata.refresh.interval.ms": "2000",
        "coordinator.query.interval.ms": "1000",
        "broker.address.family": "v4",
        "linger.ms": "2",
        // See above: without sequence numbers a later request must not be stored before an earlier one that failed.
        "max.in.flight": "1",
    ]

    /// Returns whether the id is that of an in-memory cluster of librdkafka, which loses its logs when its process ends.
    package static func isID(_ id: String) -> Bool { id.hasPrefix("mockCluster") }

    /// - Throws: `topicAlreadyExists`, or if the cluster is closed.
    package func createTopic(_ name: String, partitions: Int) throws(KafkaError) {
        try cluster.createTopic(name, partitions: partitions)
    }

    /// Cuts the broker's connections and takes no new ones; what it has stored stays. Its partitions get no other
    /// leader.
    package func stopBroker(_ id: Int32) throws(KafkaError) {
        try cluster.setBroker(id, isUp: false)
    }

    package func startBroker(_ id: Int32) throws(KafkaError) {
        try cluster.setBroker(id, isUp: true)
    }

    /// Delays all answers of the broker.
    package func setRoundTripTime(broker id: Int32, _ duration: Duration) throws(KafkaError) {
        try cluster.setRoundTripTime(id, duration)
    }

    /// The next requests of this kind fail with these errors, one after the other. A local transport error (-195) cuts
    /// the connection instead of answering.
    package func pushRequestErrors(_ request: KafkaRequestKind, _ codes: [KafkaError.Code]) throws(KafkaError) {
        try cluster.pushErrors(request, codes)
    }

    /// Takes back the errors of this kind that no request has got yet.
    package func clearRequestErrors(_ request: KafkaRequestKind) throws(KafkaError) {
        try cluster.clearErrors(request)
    }

    /// Sets the error of the topic's metadata until it is changed again; nil: none. With `unknownTopicOrPartition` the topic
    /// seems to be missing.
    package func setTopicError(_ topic: String, _ code: KafkaError.Code?) throws(KafkaError) {
        try cluster.setTopicError(topic, code)
    }

    /// Ends the cluster, on a thread of its own; returns at once. Calling it again does nothing, and every later call
    /// to the cluster fails.
    package func close() {
        cluster.close()
    }

    /// Ends the cluster and returns when its threads have ended.
    package func shutdown() async {
        cluster.close()
        await cluster.completion.wait()
    }
}
