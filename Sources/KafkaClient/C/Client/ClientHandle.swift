// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka
internal import Dispatch
internal import Logging

/// Owns a librdkafka client. Any thread may call its functions until the owner calls `destroy`, once, as the last call
/// on its poll thread.
///
/// `@unchecked Sendable`: the members never change, and librdkafka does its own locking.
@safe final class ClientHandle: @unchecked Sendable {
    enum Role {
        case consumer
        case producer
        /// Carries an in-process cluster and makes no connections.
        case embedded
    }

    let pointer: OpaquePointer
    /// Used by librdkafka as long as the client exists.
    let callbacks: ClientCallbacks

    /// Makes the client.
    ///
    /// - Parameters:
    ///   - defaults: properties that the caller may override.
    ///   - newer: defaults that older versions of librdkafka do not know and go without.
    ///   - fixed: properties that the caller must not set to other values.
    ///   - problems: invalid values that the caller has found.
    ///   - pollsLogs: whether logs come through the client's queue, on the thread that polls it, instead of from
    ///     librdkafka's own threads.
    /// - Throws: `invalidConfiguration` with every invalid property.
    init(
        _ role: Role, _ configuration: KafkaConfiguration, defaults: [String: String], newer: [String: String] = [:],
        fixed: [String: String], problems: [String] = [], pollsLogs: Bool = false, logger: Logger, operation: String
    ) throws(KafkaError) {
        callbacks = ClientCallbacks(logger: logger, configuration: configuration)
        let properties: OpaquePointer = unsafe rd_kafka_conf_new()
        var fixed = fixed
        if role != .embedded { fixed["bootstrap.servers"] = configuration.bootstrapServers }
        fixed["log.queue"] = pollsLogs ? "true" : "false"
        var problems =
            unsafe problems
            + Self.set(
                configuration, for: role, defaults: defaults, newer: newer, fixed: fixed, on: properties)
        if problems.isEmpty {
            unsafe callbacks.install(on: properties, for: role)
            let type = role == .consumer ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER
            let (client, text) = unsafe withErrorText { unsafe rd_kafka_new(type, properties, $0, $1) }
            if let client = unsafe client {
                // It has taken the properties over.
                unsafe pointer = client
                return
            }
            // A combination of properties that librdkafka refuses.
            problems = [text]
        }
        unsafe rd_kafka_conf_destroy(properties)
        throw KafkaError(
            code: .invalidConfiguration, message: callbacks.redact(problems.sorted().joined(separator: "; ")),
            isRetriable: false, context: KafkaError.Context(operation: operation))
    }

    /// Frees the client. Waits a bounded time, since librdkafka may hang here (issues 3143 and 5434; in 2.0.2 when a
    /// topic with assigned partitions is deleted). An abandoned client leaks its memory and a thread.
    ///
    /// - Returns: false if the client was abandoned.
    @discardableResult
    func destroy(closing: Bool = true, atMost limit: Duration = .seconds(10)) -> Bool {
        let ended = DispatchSemaphore(value: 0)
        let end: @Sendable () -> Void = {
            withExtendedLifetime(self) {
                unsafe rd_kafka_destroy_flags(
                    self.pointer, closing ? 0 : RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE)
            }
            ended.signal()
        }
        do {
            try PollThread.run("kafka-destroy", end)
        } catch {
            end()
        }
        let milliseconds = Int(limit / .milliseconds(1))
        guard ended.wait(timeout: .now() + .milliseconds(milliseconds)) == .success else {
            callbacks.logger.error(
                "librdkafka does not free a client; it is given up", metadata: ["waited": "\(milliseconds) ms"])
            return false
        }
        return true
    }
}

/// Target of a client's callbacks, as librdkafka's unretained opaque pointer. ``ClientHandle`` keeps it alive until the
/// client is destroyed.
///
/// `@unchecked Sendable`: `onError` and `onDelivery` are used only on the thread that polls the client, which runs all
/// callbacks except those of connections and of logs that are not polled; these use only constant members.
@safe final class ClientCallbacks: @unchecked Sendable {
    let logger: Logger
    /// Secrets of the configuration, the longest first.
    private let secrets: [[UInt8]]
    #if DEBUG
    /// Ports to which connections are redirected, by the port of the broker's address, in tests.
    let routes: [UInt16: UInt16]
    #endif
    /// Handles a condition from which librdkafka recovers itself, or a fatal error. Set by the poll thread while it
    /// runs, as is ``onDelivery``.
    var onError: ((_ response: rd_kafka_resp_err_t, _ reason: String) -> Void)?
    /// Handles the outcome of a message, which is librdkafka's and valid during the call.
    var onDelivery: ((_ message: UnsafePointer<rd_kafka_message_t>) -> Void)?

    init(logger: Logger, configuration: KafkaConfiguration) {
        self.logger = logger
        secrets = configuration.properties.filter { KafkaConfiguration.isSecret($0.key) && !$0.value.isEmpty }
            .map { Array($0.value.utf8) }.sorted { $0.count > $1.count }
        #if DEBUG
        routes = configuration.routes
        #endif
    }

    /// Registers this instance's callbacks in a client's configuration.
    func install(on properties: OpaquePointer, for role: ClientHandle.Role) {
        // Unretained: the client's handle keeps the callbacks alive.
        unsafe rd_kafka_conf_set_opaque(properties, Unmanaged.passUnretained(self).toOpaque())
        unsafe rd_kafka_conf_set_log_cb(properties) { client, level, facility, text in
            guard let client = unsafe client else { return }
            let facility = unsafe facility.map { unsafe String(cString: $0) } ?? ""
            let text = unsafe text.map { unsafe String(cString: $0) } ?? ""
            unsafe ClientCallbacks.from(rd_kafka_opaque(client))?.logged(level: level, facility: facility, text: text)
        }
        #if DEBUG
        if !routes.isEmpty { unsafe Self.installRoutes(on: properties) }
        #endif
        unsafe rd_kafka_conf_set_error_cb(properties) { _, number, reason, opaque in
            let reason = unsafe reason.map { unsafe String(cString: $0) } ?? ""
            unsafe ClientCallbacks.from(opaque)?.onError?(rd_kafka_resp_err_t(rawValue: number), reason)
        }
        if role == .consumer {
            // Without a callback librdkafka warns of each failed commit, although only lag tools use committed offsets.
            unsafe rd_kafka_conf_set_offset_commit_cb(properties) { _, response, _, opaque in
                guard response != RD_KAFKA_RESP_ERR_NO_ERROR, response != RD_KAFKA_RESP_ERR__NO_OFFSET else { return }
                unsafe ClientCallbacks.from(opaque)?.logger.debug(
                    "offsets were not committed (for lag tools only)",
                    metadata: ["code": "\(KafkaError.Code(response))"])
            }
        } else {
            unsafe rd_kafka_conf_set_dr_msg_cb(properties) { _, message, opaque in
                guard let message = unsafe message else { return }
                unsafe ClientCallbacks.from(opaque)?.onDelivery?(message)
            }
        }
    }

    /// The text with the configuration's secrets replaced.
    func redact(_ text: String) -> String {
        guard !secrets.isEmpty else { return text }
        var bytes = Array(text.utf8)
        for secret in secrets { bytes.replace(secret, with: "<redacted>".utf8) }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Sends librdkafka's log line to swift-log, with syslog's level translated.
    func logged(level: Int32, facility: String, text: String) {
        // librdkafka mistakes the embedded cluster for a broker older than 0.11 and warns.
        let level = facility == "AUTOCREATE" ? .debug : Self.level(level)
        logger.log(level: level, "\(redact(text))", metadata: ["facility": "\(facility)"])
    }

    /// Translates syslog's level.
    static func level(_ syslog: Int32) -> Logger.Level {
        switch syslog {
        case ...2: .critical
        case 3: .error
        case 4: .warning
        case 5: .notice
        case 6: .info
        default: .debug
        }
    }

    /// Returns the instance behind a client's opaque pointer.
    static func from(_ opaque: UnsafeMutableRawPointer?) -> ClientCallbacks? {
        // Unretained: the client's handle outlives every callback.
        unsafe opaque.map { unsafe Unmanaged<ClientCallbacks>.fromOpaque($0).takeUnretainedValue() }
    }
}

#if DEBUG
internal import CRdKafka
internal import Glibc

/// Connections to brokers by the detours of ``KafkaConfiguration/routes``, in debug builds only.
extension ClientCallbacks {
    /// Makes a client, whose opaque pointer is its ``ClientCallbacks``, connect by their routes.
    private static func installRoutes(on pointer: OpaquePointer) {
        unsafe rd_kafka_conf_set_connect_cb(pointer) { socket, address, length, _, opaque in
            let routes = unsafe ClientCallbacks.from(opaque)?.routes ?? [:]
            return unsafe ClientCallbacks.connect(socket, to: address, length, by: routes)
        }
    }

    /// Connects without blocking, as librdkafka does. Returns the error number, or 0.
    private static func connect(
        _ socket: Int32, to address: UnsafePointer<sockaddr>?, _ length: Int32, by routes: [UInt16: UInt16]
    ) -> Int32 {
        guard let address = unsafe address else { return EINVAL }
        var answer: Int32
        if unsafe Int32(address.pointee.sa_family) == AF_INET {
            var target = unsafe UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self)
            if let port = routes[UInt16(bigEndian: target.sin_port)] { target.sin_port = port.bigEndian }
            answer = unsafe withUnsafePointer(to: &target) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe Glibc.connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        } else {
            answer = unsafe Glibc.connect(socket, address, socklen_t(length))
        }
        guard answer != 0, errno != EINPROGRESS else { return 0 }
        return errno
    }
}
#endif

/// Upper limit of the number of heap arenas, since a container sees all processors of a large machine.
private let mostHeapArenas = 8

/// Number of heap arenas to set: one per processor, but at least two, so that busy threads do not share one lock. Nil
/// if the environment sets it.
func heapArenas(processors: Int, environment: [String: String]) -> Int? {
    let isChosen =
        environment["MALLOC_ARENA_MAX"] != nil
        || environment["GLIBC_TUNABLES"].map { $0.contains("glibc.malloc.arena_max") } ?? false
    return isChosen ? nil : min(max(2, processors), mostHeapArenas)
}

/// Limits the number of heap arenas of glibc's allocator. Call it before any thread starts. It has no effect with
/// another allocator.
///
/// By default glibc creates up to eight arenas per processor as threads contend, and each arena keeps the memory that
/// its threads once needed. Buffers of librdkafka and Swift move between a dozen threads, so the process would hold
/// more memory than it uses and grow for a long time.
package func limitHeapArenas(processors: Int, environment: [String: String]) {
    guard let count = heapArenas(processors: processors, environment: environment) else { return }
    crdkafka_limit_heap_arenas(Int32(clamping: count))
}
