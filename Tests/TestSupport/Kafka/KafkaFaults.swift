// SPDX-License-Identifier: Apache-2.0

package import KafkaClient

/// Errors for ``EmbeddedKafka/pushRequestErrors(_:_:)``.
extension KafkaError.Code {
    /// Cuts the connection instead of answering.
    package static let disconnect = Self(number: -195, name: "_TRANSPORT")
    package static let offsetOutOfRange = Self(number: 1, name: "OFFSET_OUT_OF_RANGE")
    package static let notLeaderForPartition = Self(number: 6, name: "NOT_LEADER_FOR_PARTITION")
    package static let requestTimedOut = Self(number: 7, name: "REQUEST_TIMED_OUT")
    package static let coordinatorNotAvailable = Self(number: 15, name: "COORDINATOR_NOT_AVAILABLE")
    package static let notCoordinator = Self(number: 16, name: "NOT_COORDINATOR")
    package static let notEnoughReplicas = Self(number: 19, name: "NOT_ENOUGH_REPLICAS")
    package static let illegalGeneration = Self(number: 22, name: "ILLEGAL_GENERATION")
    package static let unknownMemberID = Self(number: 25, name: "UNKNOWN_MEMBER_ID")
    package static let groupAuthorizationFailed = Self(number: 30, name: "GROUP_AUTHORIZATION_FAILED")
}
