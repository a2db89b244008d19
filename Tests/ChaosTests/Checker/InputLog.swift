// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import Synchronization

/// Follows the input topics and folds them into the model. Kafka's content is the truth, whatever acknowledgement the
/// producer got. Reads past all proxies.
final class InputLog: Sendable {
    private struct State {
        var model: ChaosModel
        var events: [String: ChaosEvent] = [:]
    }

    private let state: Mutex<State>
    private let consumer: KafkaConsumer
    private let kafka: ChaosKafka
    private let report: ChaosReport

    init(kafka: ChaosKafka, world: ChaosWorld, report: ChaosReport, logger: Logger) throws {
        self.kafka = kafka
        state = Mutex(State(model: ChaosModel(timelines: world.timelines.count)))
        self.report = report
        consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(
                kafka: kafka.configuration, group: "\(kafka.group)-checker"),
            logger: logger)
    }

    func register(_ events: [ChaosEvent]) {
        state.withLock { state in
            for event in events { state.events[event.id] = event }
        }
    }

    func register(marker place: ChaosModel.Place) { state.withLock { $0.model.note(marker: place) } }

    var model: ChaosModel { state.withLock { $0.model } }
    var next: [TopicPartition: Int64] { state.withLock { $0.model.next } }

    /// Whether everything in the brokers has been read.
    func isAtEnd() async -> Bool { await kafka.hasNothing(beyond: next, of: kafka.topics.inputs) }

    func run() async throws {
        try await consumer.assignAll(of: kafka.topics.inputs, others: .at(0))
        for try await event in consumer.events {
            switch event {
            case .batch(let batch): read(batch)
            case .offsetOutOfRange(let partition, let offset):
                report.violated(.exactlyOnce, "the checker cannot read \(partition) at \(offset): it fell behind")
            // The markers are known from those that appended them.
            case .advanced, .otherLog: break
            case .unreadable(let partition, let offset, let reason):
                report.violated(.exactlyOnce, "the checker cannot read \(partition) at \(offset): \(reason)")
            case .error, .interrupted: break
            }
        }
    }

    func close() async { await consumer.shutdown() }

    private func read(_ batch: KafkaBatch) {
        let problems = state.withLock { state -> [String] in
            var problems: [String] = []
            for index in 0..<batch.count {
                let id = batch.header(index, named: "ce_id").map { String(decoding: batch.bytes[$0], as: UTF8.self) }
                let record = batch.records[index]
                let place = ChaosModel.Place(
                    topic: batch.topic(index), partition: record.partition, offset: record.offset)
                let problem = state.model.apply(state.events[id ?? ""], id: id ?? "", at: place)
                if let problem { problems.append(problem) }
            }
            return problems
        }
        for problem in problems { report.violated(.exactlyOnce, "the evidence is broken: \(problem)") }
    }
}
