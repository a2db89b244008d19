internal import CRdKafka
internal import Logging

/// Receiver of a client's errors and outcomes, called on the thread that polls the client.
protocol ClientEvents: AnyObject {
    /// Handles a condition from which librdkafka recovers itself, or a fatal error.
    func errorRaised(_ response: rd_kafka_resp_err_t, reason: String)

    /// Handles the outcome of a message, which is librdkafka's and valid during the call.
    func delivered(_ message: UnsafePointer<rd_kafka_message_t>)
}

/// Target of a client's callbacks, as librdkafka's unretained opaque pointer. ``ClientHandle`` keeps it alive until the
/// client is destroyed.
///
/// `@unchecked Sendable`: `owner` is used only on the thread that polls the client, which runs all callbacks except
/// those of connections and of logs that are not polled; these use only constant members.
final class ClientCallbacks: @unchecked Sendable {
    let logger: Logger
    let redact: SecretRedaction
    #if DEBUG
    /// Ports to which connections are redirected, by the port of the broker's address, in tests.
    let routes: [UInt16: UInt16]
    #endif
    /// Set by the poll thread while it runs.
    var owner: (any ClientEvents)?

    init(logger: Logger, configuration: KafkaConfiguration) {
        self.logger = logger
        redact = SecretRedaction(configuration)
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
        if !routes.isEmpty { unsafe ConnectRoutes.install(on: properties) }
        #endif
        unsafe rd_kafka_conf_set_error_cb(properties) { _, number, reason, opaque in
            let reason = unsafe reason.map { unsafe String(cString: $0) } ?? ""
            unsafe ClientCallbacks.from(opaque)?.owner?.errorRaised(
                rd_kafka_resp_err_t(rawValue: number), reason: reason)
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
                unsafe ClientCallbacks.from(opaque)?.owner?.delivered(message)
            }
        }
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
