// SPDX-License-Identifier: Apache-2.0

import KafkaClient

/// Failure to publish events.
public struct WidgetCenterError: Error, Sendable, CustomStringConvertible {
    /// Kind of the error. Later versions may add codes.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        public let description: String

        /// A setting or argument is invalid; nothing was sent.
        public static let invalidArgument = Code(description: "invalidArgument")
        /// The brokers did not acknowledge the event in time. See ``WidgetCenterError/isPossiblyStored``.
        public static let notAcknowledged = Code(description: "notAcknowledged")
        /// As many events as allowed are under way, and the call does not wait for room; nothing was sent.
        public static let overloaded = Code(description: "overloaded")
        /// The brokers refuse the credentials, or do not let them write to the topic.
        public static let notPermitted = Code(description: "notPermitted")
        /// The topic does not exist.
        public static let unknownTopic = Code(description: "unknownTopic")
        /// The event exceeds the size limit of the brokers.
        public static let tooLarge = Code(description: "tooLarge")
        /// The task was cancelled before the event was sent.
        public static let cancelled = Code(description: "cancelled")
        /// The center was shut down.
        public static let shutDown = Code(description: "shutDown")
    }

    public let code: Code
    /// Description of the error, without secrets.
    public let message: String
    /// Whether the same call can succeed later.
    public let isRetriable: Bool
    /// Whether the brokers may have stored the event despite the error. Publishing it again causes at most one more
    /// reload.
    public let isPossiblyStored: Bool
    /// Indices of the events that were not published. After `invalidArgument` and `overloaded` these are all events of
    /// the call; after other errors the rest was published.
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

    /// The same error for one of several events.
    func ofEvent(_ index: Int, of count: Int) -> WidgetCenterError {
        WidgetCenterError(
            code, count == 1 ? message : "event \(index): \(message)", isRetriable: isRetriable,
            isPossiblyStored: isPossiblyStored,
            failedEvents: [index])
    }
}

extension KafkaError.Code {
    /// librdkafka's own code for an unknown topic.
    fileprivate static let unknownTopic = Self(number: -188, name: "_UNKNOWN_TOPIC")
}
