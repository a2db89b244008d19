/// Position of an event in Kafka, stored with its effects so that *explain* can name it.
package struct EventPosition: Hashable, Sendable {
    /// Index of the topic among the input topics (0 pushes, 1 app changes, 2 widgets).
    package var topic: Int16
    package var partition: Int32
    package var offset: Int64

    package init(topic: Int16, partition: Int32, offset: Int64) {
        self.topic = topic
        self.partition = partition
        self.offset = offset
    }
}
