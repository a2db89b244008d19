import FreshetClient
import KafkaClient
import WidgetModel

extension Farm {
    /// Publishes a reload of each of these widgets, in their order, as fast as it goes. All are acknowledged, and all still
    /// there: the embedded broker drops silently what does not fit.
    ///
    /// - Parameter id: the event's, by the index among the widgets.
    /// - Throws: ``CommandFailure`` when the broker has not kept all of them; `KafkaError`.
    func publishReloads(of widgets: [Int], in world: LoadWorld, id: (Int) -> String) async throws {
        let topic = settings.topics.pushes
        var kafka = kafka
        // As large sets as can be: the embedded broker walks through all that it keeps of a partition for every fetch.
        kafka.properties["linger.ms"] = "50"
        let producer = try KafkaProducer(
            configuration: kafka, deliveryTimeout: settings.kafka.deliveryTimeout, logger: logger)
        let publisher = EventPublisher(producer: producer, topics: settings.topicNames, source: "/freshet/load")
        do {
            let starts = try await LoadOutput.ends(of: topic, kafka: kafka, logger: logger)
            let chunk = 50_000
            for first in stride(from: 0, to: widgets.count, by: chunk) {
                let time = SampleProvider.systemTime()
                let events = (first..<min(first + chunk, widgets.count)).map { index in
                    OutgoingEvent(
                        world.reload(widgets[index]), id: id(index), time: time, key: world.user(of: widgets[index]))
                }
                for result in await publisher.publish(events) { _ = try result.get() }
            }
            await producer.shutdown()
            let ends = try await LoadOutput.ends(of: topic, kafka: kafka, logger: logger)
            let stored = ends.reduce(0) { $0 + $1.value - (starts[$1.key] ?? 0) }
            let dropped = try await LoadOutput.dropped(of: topic, from: starts, kafka: kafka, logger: logger)
            guard stored >= widgets.count, dropped == 0 else {
                throw CommandFailure(.failure, "the broker has \(Int(stored) - dropped) of \(widgets.count) events")
            }
        } catch {
            await producer.shutdown()
            throw error
        }
    }
}
