package import Logging
internal import Synchronization

/// librdkafka's in-process cluster for tests and the demo: brokers that speak the real protocol over TCP on the
/// loopback interface, with faults on demand.
///
/// Differences from a real cluster:
/// - It keeps at most 5 MiB or 100,000 batches a partition and **silently drops the oldest**: a consumer that is too
///   slow gets `offsetOutOfRange`, so producers must hold back.
/// - It ignores a producer's sequence numbers. If the connection is cut between storing and answering, the retry stores
///   the message again. With several requests under way it would accept a later one after an earlier one failed, and
///   librdkafka would take both for stored; therefore ``clientProperties`` allow one request at a time.
/// - It has no topic administration, compaction, SASL or TLS.
/// - It answers a fetch with at most one message set of each partition, and searches linearly for it: it gets slower
///   with the amount stored, and is no measure of a real broker.
/// - Producing to or reading a missing topic creates it with 4 partitions, whatever clients say.
package final class EmbeddedKafka: Sendable {
    private let cluster: MockCluster

    /// - Parameter brokers: their ids are 1, 2, …
    package init(brokers: Int = 1, logger: Logger) throws(KafkaError) {
        cluster = try MockCluster(brokers: brokers, logger: logger)
    }

    deinit { cluster.close() }

    /// The brokers' addresses.
    package var bootstrapServers: String { cluster.bootstrapServers }

    /// Configuration of its clients: the addresses and ``clientProperties``.
    package var configuration: KafkaConfiguration {
        KafkaConfiguration(bootstrapServers: bootstrapServers, properties: Self.clientProperties)
    }

    /// Properties that make its clients quick. It answers an empty fetch only at the end of the wait, which is
    /// therefore the latency. Clients recover from failures within fractions of a second.
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
        // See above.
        "max.in.flight": "1",
    ]

    /// Whether an id is that of an in-process cluster, which loses its logs when the process ends.
    package static func isID(_ id: String) -> Bool { id.hasPrefix("mockCluster") }

    /// - Throws: `topicAlreadyExists`, or if the cluster is closed.
    package func createTopic(_ name: String, partitions: Int) throws(KafkaError) {
        try cluster.createTopic(name, partitions: partitions)
    }

    /// Cuts the broker's connections and refuses new ones. It keeps its messages, and its partitions get no other
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

    /// Makes the next requests of a kind fail with these errors in turn. A local transport error (-195) cuts the
    /// connection.
    package func pushRequestErrors(_ request: KafkaRequestKind, _ codes: [KafkaError.Code]) throws(KafkaError) {
        try cluster.pushErrors(request, codes)
    }

    /// Removes the errors that no request has got yet.
    package func clearRequestErrors(_ request: KafkaRequestKind) throws(KafkaError) {
        try cluster.clearErrors(request)
    }

    /// Sets or clears (nil) the error of a topic's metadata. With `unknownTopicOrPartition` the topic seems to be
    /// missing.
    package func setTopicError(_ topic: String, _ code: KafkaError.Code?) throws(KafkaError) {
        try cluster.setTopicError(topic, code)
    }

    /// Ends the cluster on a thread of its own and returns at once. Later calls to the cluster fail.
    package func close() {
        cluster.close()
    }

    /// Ends the cluster and returns when its threads have ended.
    package func shutdown() async {
        cluster.close()
        await cluster.completion.wait()
    }
}
