// SPDX-License-Identifier: Apache-2.0

/// An error of a Kafka client: its code, operation, and whether a retry can help.
package struct KafkaError: Error, Hashable, Sendable, CustomStringConvertible {
    /// librdkafka's error number: negative ones are local (`__TIMED_OUT` is -185), positive ones are the broker's.
    package struct Code: Hashable, Sendable, CustomStringConvertible {
        package let number: Int32
        /// librdkafka's name without the prefix `RD_KAFKA_RESP_ERR_`, such as `_TIMED_OUT`.
        package let name: String

        package init(number: Int32, name: String) {
            self.number = number
            self.name = name
        }

        package static func == (left: Self, right: Self) -> Bool { left.number == right.number }
        package func hash(into hasher: inout Hasher) { hasher.combine(number) }
        package var description: String { "\(name) (\(number))" }
    }

    /// Operation, topic and partition of the error.
    package struct Context: Hashable, Sendable {
        package var operation: String
        package var topic: String?
        package var partition: Int32?
    }

    package var code: Code
    package var message: String
    /// Whether a retry can succeed.
    package var isRetriable: Bool
    /// Whether the client that raised it has to be replaced.
    package var isFatal: Bool
    /// Whether the brokers may have stored an unconfirmed message anyway.
    package var isPossiblyPersisted: Bool
    package var context: Context

    package init(
        code: Code, message: String, isRetriable: Bool, isFatal: Bool = false, isPossiblyPersisted: Bool = false,
        context: Context
    ) {
        (self.code, self.message, self.isRetriable) = (code, message, isRetriable)
        (self.isFatal, self.isPossiblyPersisted, self.context) = (isFatal, isPossiblyPersisted, context)
    }

    package var description: String {
        var place = ""
        if let topic = context.topic { place += " \(topic)" }
        if let partition = context.partition { place += "[\(partition)]" }
        let kind = isFatal ? ", fatal" : isRetriable ? ", can be retried" : ""
        return "Kafka \(context.operation)\(place): \(message) [\(code)\(kind)]"
    }
}

extension KafkaError.Code {
    /// Unknown properties or values; the message names each.
    package static let invalidConfiguration = Self(number: -186, name: "_INVALID_ARG")
    /// Not allowed in this state, for example after `shutdown`.
    package static let invalidState = Self(number: -172, name: "_STATE")
    /// The task was cancelled before the message was sent.
    package static let cancelled = Self(number: -163, name: "_INTR")
    /// No confirmation within the delivery timeout.
    package static let messageTimedOut = Self(number: -192, name: "_MSG_TIMED_OUT")
    /// The request took too long.
    package static let timedOut = Self(number: -185, name: "_TIMED_OUT")
    /// The message was still unconfirmed when the producer was shut down.
    package static let purged = Self(number: -152, name: "_PURGE_QUEUE")
    /// The client has failed for good.
    package static let fatal = Self(number: -150, name: "_FATAL")
    /// The message is larger than `message.max.bytes` or than the topic allows.
    package static let messageTooLarge = Self(number: 10, name: "MSG_SIZE_TOO_LARGE")
    package static let topicAlreadyExists = Self(number: 36, name: "TOPIC_ALREADY_EXISTS")
    package static let unknownTopicOrPartition = Self(number: 3, name: "UNKNOWN_TOPIC_OR_PART")
    /// The credentials may not read, write or describe the topic.
    package static let topicAuthorizationFailed = Self(number: 29, name: "TOPIC_AUTHORIZATION_FAILED")
    package static let clusterAuthorizationFailed = Self(number: 31, name: "CLUSTER_AUTHORIZATION_FAILED")
    /// The brokers refuse the credentials.
    package static let authenticationFailed = Self(number: -169, name: "_AUTHENTICATION")
}

extension KafkaError {
    /// Whether a broker could not be reached: a lost connection, no answer, no address, or no broker at all.
    package var isConnectionLoss: Bool { [-195, -185, -193, -187].contains(code.number) }

    /// Whether a batch in the log is the cause: broken, compressed in an unknown way, or larger than the client
    /// accepts.
    package var isUnreadableBatch: Bool { [-199, -198, -170, 2, 10].contains(code.number) }

    static func shutDown(_ operation: String) -> KafkaError {
        KafkaError(
            code: .invalidState, message: "the client is shut down", isRetriable: false,
            context: Context(operation: operation))
    }
}
