/// Kafka requests into which tests inject errors, by API key.
package enum KafkaRequestKind: Int16, Sendable {
    case produce = 0
    case fetch = 1
    case listOffsets = 2
    case metadata = 3
    case offsetCommit = 8
    case findCoordinator = 10
}
