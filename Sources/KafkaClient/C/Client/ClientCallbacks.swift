internal import CRdKafka
internal import Logging

/// Callbacks of a client's owner, on the thread that polls the client.
protocol ClientEvents: AnyObject {
    /// Handles a condition from which librdkafka recovers itself, or a fatal error.
    func errorRaised(_ response: rd_kafka_resp_err_t, reason: String)

    /// Handles the outcome of a message, which is librdkafka's and valid during the call.
    func delivered(_ message: UnsafePointer<rd_kafka_message_t>)
}

/// Target of a client's callbacks, as librdkafka's unretained opaque pointer. The client's owner keeps it alive until
/// the client is destroyed.
///
/// `@unchecked Sendable`: `owner` is used only on the thread that polls the client, which runs all callbacks except
/// those of connections and of ``ClientProperties/Logs/direct`` logs; these use only constant members.
final class ClientCallbacks: @unchecked Sendable {
    let logger: Logger
    let redact: SecretRedaction
    #if DEBUG
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

    /// Sends librdkafka's log line to swift-log, with syslog's level translated.
    func logged(level: Int32, facility: String, text: String) {
        // librdkafka takes the embedded cluster for a broker before 0.11 and warns.
        let level = facility == "AUTOCREATE" ? .debug : Self.level(level)
        logger.log(level: level, "\(redact(text))", metadata: ["facility": "\(facility)"])
    }

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

    /// The instance behind a client's opaque pointer.
    static func from(_ opaque: UnsafeMutableRawPointer?) -> ClientCallbacks? {
        // Unretained: the client's owner outlives every callback.
        unsafe opaque.map { unsafe Unmanaged<ClientCallbacks>.fromOpaque($0).takeUnretainedValue() }
    }
}
