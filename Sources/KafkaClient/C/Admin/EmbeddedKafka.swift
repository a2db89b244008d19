// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka
internal import Glibc
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
    /// `@unchecked Sendable`: used under the mutex, or by the closing thread after it has taken the parts out.
    @safe private struct Handles: @unchecked Sendable {
        let client: ClientHandle
        let cluster: OpaquePointer

        func destroy() {
            unsafe rd_kafka_mock_cluster_destroy(cluster)
            client.destroy()
        }
    }

    /// The brokers' addresses.
    package let bootstrapServers: String
    /// Completes when everything is freed.
    private let completion = Completion()
    /// Nil after `close`. The cluster's own thread answers each call under the mutex within microseconds.
    private let parts: Mutex<Handles?>
    /// Reserved ports of stopped brokers; nil if another process took the port. librdkafka aborts the process if it
    /// cannot listen on a broker's port again.
    private let reserved = Mutex<[Int32: PortReservation?]>([:])

    /// - Parameter brokers: their ids are 1, 2, …
    package init(brokers: Int = 1, logger: Logger) throws(KafkaError) {
        let operation = "start an embedded cluster"
        // It connects to no broker, and librdkafka would note that (level 5).
        let client = try ClientHandle(
            .embedded, KafkaConfiguration(bootstrapServers: "embedded"),
            defaults: ["client.id": "freshet-embedded", "log_level": "4"], fixed: [:],
            problems: (1...1000).contains(brokers) ? [] : ["brokers: must be from 1 to 1000"], logger: logger,
            operation: operation)
        guard let cluster = unsafe rd_kafka_mock_cluster_new(client.pointer, Int32(brokers)) else {
            client.destroy()
            throw KafkaError(
                RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, context: KafkaError.Context(operation: operation))
        }
        bootstrapServers = unsafe String(cString: rd_kafka_mock_cluster_bootstraps(cluster))
        parts = unsafe Mutex(Handles(client: client, cluster: cluster))
        Self.sendAtOnce(ports: Set(ports))
    }

    deinit { close() }

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

    /// Whether the id belongs to an in-process cluster. The logs of such a cluster end with its process.
    package static func isID(_ id: String) -> Bool { id.hasPrefix("mockCluster") }

    /// - Throws: `topicAlreadyExists`, or if the cluster is closed.
    package func createTopic(_ name: String, partitions: Int) throws(KafkaError) {
        guard partitions > 0, let count = Int32(exactly: partitions) else {
            throw KafkaError(
                RD_KAFKA_RESP_ERR_INVALID_PARTITIONS,
                context: KafkaError.Context(operation: "create a topic", topic: name))
        }
        unsafe try call("create a topic", topic: name) { unsafe rd_kafka_mock_topic_create($0, name, count, 1) }
    }

    /// Cuts the broker's connections and refuses new ones. It keeps its messages, and its partitions get no other
    /// leader.
    package func stopBroker(_ id: Int32) throws(KafkaError) {
        unsafe try call("stop a broker") { cluster in
            let response = unsafe rd_kafka_mock_broker_set_down(cluster, id)
            if response == RD_KAFKA_RESP_ERR_NO_ERROR { reserve(id) }
            return response
        }
    }

    package func startBroker(_ id: Int32) throws(KafkaError) {
        unsafe try call("start a broker") { cluster in
            // A stopped broker needs its port. Other brokers need nothing.
            let wasStopped = reserved.withLock { $0.keys.contains(id) }
            guard !wasStopped || reserve(id) else { return RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE }
            let response = unsafe rd_kafka_mock_broker_set_up(cluster, id)
            Self.sendAtOnce(ports: Set(port(of: id).map { [$0] } ?? []))
            return response
        }
    }

    /// Delays all answers of the broker.
    package func setRoundTripTime(broker id: Int32, _ duration: Duration) throws(KafkaError) {
        let milliseconds = Int32(min(max(duration / .milliseconds(1), 0), 3_600_000))
        unsafe try call("set a round trip time") { unsafe rd_kafka_mock_broker_set_rtt($0, id, milliseconds) }
    }

    /// Makes the next requests of a kind fail with these errors in turn. A local transport error (-195) cuts the
    /// connection.
    package func pushRequestErrors(_ request: KafkaRequestKind, _ codes: [KafkaError.Code]) throws(KafkaError) {
        let responses = codes.map(\.response)
        unsafe try call("push request errors") { cluster in
            unsafe rd_kafka_mock_push_request_errors_array(cluster, request.rawValue, responses.count, responses)
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    /// Removes the errors that no request has got yet.
    package func clearRequestErrors(_ request: KafkaRequestKind) throws(KafkaError) {
        unsafe try call("clear request errors") { cluster in
            unsafe rd_kafka_mock_clear_request_errors(cluster, request.rawValue)
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    /// Sets or clears (nil) the error of a topic's metadata. With `unknownTopicOrPartition` the topic seems to be
    /// missing.
    package func setTopicError(_ topic: String, _ code: KafkaError.Code?) throws(KafkaError) {
        let response = code?.response ?? RD_KAFKA_RESP_ERR_NO_ERROR
        unsafe try call("set a topic's error", topic: topic) { cluster in
            unsafe rd_kafka_mock_topic_set_error(cluster, topic, response)
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    /// Ends the cluster on a thread of its own and returns at once. Later calls to the cluster fail.
    package func close() {
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

    /// Ends the cluster and returns when its threads have ended.
    package func shutdown() async {
        close()
        await completion.wait()
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

    /// Reserves the broker's port until the cluster ends; false if another process has taken it.
    @discardableResult
    private func reserve(_ id: Int32) -> Bool {
        reserved.withLock { reserved in
            let port = (reserved[id] ?? nil) ?? port(of: id).flatMap { PortReservation(port: $0) }
            reserved.updateValue(port, forKey: id)
            return port != nil
        }
    }

    /// Port of a broker; ids are 1, 2, … in the order of the addresses.
    private func port(of id: Int32) -> UInt16? {
        let ports = ports
        return id >= 1 && id <= ports.count ? ports[Int(id) - 1] : nil
    }

    private var ports: [UInt16] {
        bootstrapServers.split(separator: ",").compactMap { $0.split(separator: ":").last.flatMap { UInt16($0) } }
    }
}

/// Options of listeners that librdkafka opens without giving access to them.
extension EmbeddedKafka {
    /// Sets `TCP_NODELAY` on this process's listeners at these ports, from which accepted sockets inherit it.
    ///
    /// Without it, Nagle's algorithm delays a response of the embedded broker until the client acknowledges the
    /// previous response, which an idle client does after 40 ms. That delayed two fetches a second.
    static func sendAtOnce(ports: Set<UInt16>) {
        for descriptor in listeners(at: ports) {
            var yes: Int32 = 1
            unsafe setsockopt(
                descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    /// The listeners of this process that are bound to the ports.
    static func listeners(at ports: Set<UInt16>) -> [Int32] {
        descriptors().filter { listeningPort(of: $0).map(ports.contains) ?? false }
    }

    /// Open descriptors of this process.
    private static func descriptors() -> [Int32] {
        guard let directory = unsafe opendir("/proc/self/fd") else { return [] }
        defer { unsafe closedir(directory) }
        var descriptors: [Int32] = []
        while let entry = unsafe readdir(directory) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
                unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe atoi($0) }
            }
            // "." and ".." give 0, which is not one of these listeners.
            if name > 0 { descriptors.append(name) }
        }
        return descriptors
    }

    /// Port of a listener; nil for any other descriptor.
    private static func listeningPort(of descriptor: Int32) -> UInt16? {
        var isListener: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &isListener, &size) == 0, isListener != 0 else {
            return nil
        }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let answer = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe getsockname(descriptor, $0, &length)
            }
        }
        guard answer == 0, address.sin_family == sa_family_t(AF_INET) else { return nil }
        return UInt16(bigEndian: address.sin_port)
    }
}

/// Reserves a port of this host for a listener that is stopped for a while. The system then gives the port neither to
/// an outgoing connection nor to a listener without a chosen port. librdkafka's brokers can still listen on it, since
/// they set `SO_REUSEADDR`.
final class PortReservation: Sendable {
    private let descriptor: Int32

    /// Returns nil if the port is taken.
    init?(port: UInt16) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var yes: Int32 = 1
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = unsafe inet_addr("127.0.0.1")
        let answer = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard answer == 0 else {
            close(descriptor)
            return nil
        }
    }

    deinit { close(descriptor) }
}

/// Kafka requests into which tests inject errors, by API key.
package enum KafkaRequestKind: Int16, Sendable {
    case produce = 0
    case fetch = 1
    case listOffsets = 2
    case metadata = 3
    case offsetCommit = 8
    case findCoordinator = 10
}
