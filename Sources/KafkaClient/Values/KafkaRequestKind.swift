/// The kinds of requests of Kafka's protocol that tests inject errors into (its API keys).
package enum KafkaRequestKind: Int16, Sendable {
    case produce = 0
    case fetch = 1
    case listOffsets = 2
    case metadata = 3
    case offsetCommit = 8
    case findCoordinator = 10
    case initProducerID = 22
}

extension KafkaError.Code {
    /// For ``EmbeddedKafka/pushRequestErrors(_:_:)``: the broker cuts the connection.
    package static let disconnect = Self(number: -195, name: "_TRANSPORT")
    package static let offsetOutOfRange = Self(number: 1, name: "OFFSET_OUT_OF_RANGE")
    package static let notLeaderForPartition = Self(number: 6, name: "NOT_LEADER_FOR_PARTITION")
    package static let requestTimedOut = Self(number: 7, name: "REQUEST_TIMED_OUT")
    package static let notEnoughReplicas = Self(number: 19, name: "NOT_ENOUGH_REPLICAS")
    package static let coordinatorNotAvailable = Self(number: 15, name: "COORDINATOR_NOT_AVAILABLE")
    package static let notCoordinator = Self(number: 16, name: "NOT_COORDINATOR")
    package static let illegalGeneration = Self(number: 22, name: "ILLEGAL_GENERATION")
    package static let unknownMemberID = Self(number: 25, name: "UNKNOWN_MEMBER_ID")
}
