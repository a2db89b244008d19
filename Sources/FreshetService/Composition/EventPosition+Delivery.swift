package import KafkaClient
package import WidgetEvents
package import WidgetModel

extension EventPosition {
    /// Where an event was stored; nil when Kafka does not say.
    package init?(_ delivery: KafkaDelivery, of event: FreshetEvent) {
        guard let offset = delivery.offset else { return nil }
        let topic: Int16 =
            switch event.type.topic {
            case .pushes: 0
            case .appChanges: 1
            case .widgets: 2
            }
        self.init(topic: topic, partition: delivery.partition, offset: offset)
    }
}
