import KafkaClient
import WidgetModel

/// Why events were not published.
public struct WidgetCenterError: Error, Sendable, CustomStringConvertible {
    /// What sort of error it is. There may be further ones in later versions.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        public let description: String

        /// A setting or an argument is not what it may be; nothing was sent.
        public static let invalidArgument = Code(description: "invalidArgument")
        /// The brokers did not acknowledge the event in time. See ``WidgetCenterError/isPossiblyStored``.
        public static let notAcknowledged = Code(description: "notAcknowledged")
        /// There is no room, and the center was told not to wait for it; nothing was sent.
        public static let overloaded = Code(description: "overloaded")
        /// The credentials are not accepted, or may not write to the topic.
        public static let notPermitted = Code(description: "notPermitted")
        /// There is no such topic.
        public static let unknownTopic = Code(description: "unknownTopic")
        /// The event is larger than the brokers take.
        public static let tooLarge = Code(description: "tooLarge")
        /// The task was cancelled before the event was sent.
        public static let cancelled = Code(description: "cancelled")
        /// The center was shut down.
        public static let shutDown = Code(description: "shutDown")
    }

    public let code: Code
    /// What is wrong and what was expected. Names no secret.
    public let message: String
    /// Whether the same call can succeed later.
    public let isRetriable: Bool
    /// The brokers may have stored the event all the same. To publish it again does no harm: what Freshet is told twice
    /// has no other effect than one more reload.
    public let isPossiblyStored: Bool
    /// Places of the events that were not published, in the list that was to be. After `invalidArgument` and
    /// `overloaded` nothing of the call was published; after other errors the others were. Empty if the call was about
    /// none.
    public internal(set) var failedEvents: [Int]

    public var description: String { message }

    init(
        _ code: Code, _ message: String, isRetriable: Bool = false, isPossiblyStored: Bool = false,
        failedEvents: [Int] = []
    ) {
        self.code = code
        self.message = message
        self.isRetriable = isRetriable
        self.isPossiblyStored = isPossiblyStored
        self.failedEvents = failedEvents
    }

    init(_ error: KafkaError, failedEvents: [Int] = []) {
        let code: Code =
            switch error.code {
            case .messageTooLarge: .tooLarge
            case .invalidConfiguration: .invalidArgument
            case .invalidState: .shutDown
            case .cancelled: .cancelled
            case .topicAuthorizationFailed, .clusterAuthorizationFailed, .authenticationFailed: .notPermitted
            case .unknownTopicOrPartition, .unknownTopic: .unknownTopic
            default: .notAcknowledged
            }
        self.init(
            code, error.description, isRetriable: error.isRetriable, isPossiblyStored: error.isPossiblyPersisted,
            failedEvents: failedEvents)
    }

    init(_ error: ModelError, argument: String) {
        self.init(.invalidArgument, "\(argument)\(error.pointer): \(error.message)")
    }

    /// The same error, told of one of several events.
    func ofEvent(_ index: Int, of count: Int) -> WidgetCenterError {
        WidgetCenterError(
            code, count == 1 ? message : "event \(index): \(message)", isRetriable: isRetriable,
            isPossiblyStored: isPossiblyStored,
            failedEvents: [index])
    }
}

extension KafkaError.Code {
    /// librdkafka's own word for a topic that the brokers do not know.
    fileprivate static let unknownTopic = Self(number: -188, name: "_UNKNOWN_TOPIC")
}
