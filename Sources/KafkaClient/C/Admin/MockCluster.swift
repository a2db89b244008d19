internal import CRdKafka
internal import Logging
internal import Synchronization

/// Owns an in-process cluster and the client instance that carries it.
///
/// All calls go through the mutex, so that none comes after `close`; each is answered by the cluster's own thread
/// within microseconds.
final class MockCluster: Sendable {
    /// `@unchecked Sendable`: used under the mutex, or by the closing thread, which has taken it out.
    @safe private struct Parts: @unchecked Sendable {
        let client: ClientHandle
        /// Kept alive for the client's sake.
        let callbacks: ClientCallbacks
        let cluster: OpaquePointer

        func destroy() {
            unsafe rd_kafka_mock_cluster_destroy(cluster)
            client.destroy(keeping: callbacks)
        }
    }

    let bootstrapServers: String
    /// Everything is freed.
    let completion = Completion()
    private let parts: Mutex<Parts?>
    /// Reserved ports of stopped brokers, nil where another process took it: the library ends the process when it cannot
    /// listen on a broker's port again.
    private let reserved = Mutex<[Int32: Reserved?]>([:])

    private final class Reserved: Sendable {
        let port: PortReservation

        init?(_ port: UInt16) {
            guard let port = PortReservation(port: port) else { return nil }
            self.port = port
        }
    }

    /// Settings of its client, which connects nowhere; librdkafka would warn about that (level 5).
    private static let defaults = ["client.id": "freshet-embedded", "log_level": "4"]

    init(brokers: Int, logger: Logger) throws(KafkaError) {
        let configuration = KafkaConfiguration(bootstrapServers: "embedded")
        let callbacks = ClientCallbacks(logger: logger, configuration: configuration)
        let problems = (1...1000).contains(brokers) ? [] : ["brokers: must be from 1 to 1000"]
        let properties = try ClientProperties(
            .embedded, configuration, defaults: Self.defaults, fixed: [:], problems: problems,
            logs: .direct, callbacks: callbacks, operation: "start an embedded cluster")
        let client = try ClientHandle(.embedded, properties: properties, operation: "start an embedded cluster")
        guard let cluster = unsafe rd_kafka_mock_cluster_new(client.pointer, Int32(brokers)) else {
            client.destroy()
            throw KafkaError(
                RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE,
                context: KafkaError.Context(operation: "start an embedded cluster"))
        }
        bootstrapServers = unsafe String(cString: rd_kafka_mock_cluster_bootstraps(cluster))
        parts = unsafe Mutex(Parts(client: client, callbacks: callbacks, cluster: cluster))
        ListenerOptions.sendAtOnce(ports: Set(ports))
    }

    deinit { close() }

    func close() {
        guard let parts = parts.withLock({ $0.take() }) else { return }
        let completion = completion
        let end: @Sendable () -> Void = {
            // Blocks until the cluster's thread has ended.
            parts.destroy()
            completion.complete()
        }
        do {
            try PollThread.run("kafka-embedded", end)
        } catch {
            end()
        }
    }

    private func call(
        _ operation: String, topic: String? = nil, _ body: (OpaquePointer) -> rd_kafka_resp_err_t
    ) throws(KafkaError) {
        let response = parts.withLock { parts in parts.map { unsafe body($0.cluster) } }
        guard let response else { throw .shutDown(operation) }
        guard response == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw KafkaError(response, context: KafkaError.Context(operation: operation, topic: topic))
        }
    }

    func createTopic(_ name: String, partitions: Int) throws(KafkaError) {
        guard partitions > 0, let count = Int32(exactly: partitions) else {
            throw KafkaError(
                RD_KAFKA_RESP_ERR_INVALID_PARTITIONS,
                context: KafkaError.Context(operation: "create a topic", topic: name))
        }
        unsafe try call("create a topic", topic: name) { unsafe rd_kafka_mock_topic_create($0, name, count, 1) }
    }

    func setBroker(_ id: Int32, isUp: Bool) throws(KafkaError) {
        let operation = isUp ? "start a broker" : "stop a broker"
        unsafe try call(operation) { cluster in
            guard isUp else {
                let response = unsafe rd_kafka_mock_broker_set_down(cluster, id)
                if response == RD_KAFKA_RESP_ERR_NO_ERROR { reserve(id) }
                return response
            }
            // A stopped broker needs its port; for others there is nothing to do.
            let wasStopped = reserved.withLock { $0.keys.contains(id) }
            guard !wasStopped || reserve(id) else { return RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE }
            let response = unsafe rd_kafka_mock_broker_set_up(cluster, id)
            ListenerOptions.sendAtOnce(ports: Set(port(of: id).map { [$0] } ?? []))
            return response
        }
    }

    /// Reserves the broker's port until the cluster ends; false when another process has taken it.
    @discardableResult
    private func reserve(_ id: Int32) -> Bool {
        reserved.withLock { reserved in
            let port = (reserved[id] ?? nil) ?? port(of: id).flatMap { Reserved($0) }
            reserved.updateValue(port, forKey: id)
            return port != nil
        }
    }

    /// Brokers' ids are 1, 2, … in the order of the addresses.
    private func port(of id: Int32) -> UInt16? {
        let ports = ports
        return id >= 1 && id <= ports.count ? ports[Int(id) - 1] : nil
    }

    private var ports: [UInt16] {
        bootstrapServers.split(separator: ",").compactMap { $0.split(separator: ":").last.flatMap { UInt16($0) } }
    }

    func setRoundTripTime(_ id: Int32, _ duration: Duration) throws(KafkaError) {
        let milliseconds = Int32(min(max(duration / .milliseconds(1), 0), 3_600_000))
        unsafe try call("set a round trip time") { unsafe rd_kafka_mock_broker_set_rtt($0, id, milliseconds) }
    }

    func clearErrors(_ request: KafkaRequestKind) throws(KafkaError) {
        unsafe try call("clear request errors") { cluster in
            unsafe rd_kafka_mock_clear_request_errors(cluster, request.rawValue)
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    func setTopicError(_ topic: String, _ code: KafkaError.Code?) throws(KafkaError) {
        let response = code?.response ?? RD_KAFKA_RESP_ERR_NO_ERROR
        unsafe try call("set a topic's error", topic: topic) { cluster in
            unsafe rd_kafka_mock_topic_set_error(cluster, topic, response)
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    func pushErrors(_ request: KafkaRequestKind, _ codes: [KafkaError.Code]) throws(KafkaError) {
        let responses = codes.map(\.response)
        unsafe try call("push request errors") { cluster in
            unsafe rd_kafka_mock_push_request_errors_array(cluster, request.rawValue, responses.count, responses)
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }
}
