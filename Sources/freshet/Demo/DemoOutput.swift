import FreshetService
import KafkaClient
import Logging
import Synchronization
import WidgetEvents

/// Reads `freshet.timelines` like any consumer: the highest revision of each timeline counts.
final class DemoOutput: Sendable {
    struct Snapshot: Sendable {
        var messages = 0
        /// Highest revision by timeline id; negative for a tombstone.
        var revisions: [String: Int64] = [:]
    }

    private let state = Mutex(Snapshot())

    var snapshot: Snapshot { state.withLock { $0 } }

    func run(_ consumer: KafkaConsumer, topic: String, logger: Logger) async throws {
        try await consumer.assignAll(of: [topic])
        try await withTaskCancellationHandler {
            for try await event in consumer.events {
                switch event {
                case .batch(let batch): read(batch)
                case .offsetOutOfRange(let partition, let offset):
                    // The embedded cluster has dropped messages that were not read in time: the summary will say so.
                    logger.error(
                        "timelines were dropped before they were read",
                        metadata: ["partition": "\(partition.partition)", "offset": "\(offset)"])
                    await consumer.assign([partition: .earliest])
                case .error(let error): logger.debug("output consumer", metadata: ["error": "\(error)"])
                case .interrupted: break
                }
            }
        } onCancel: {
            Task { await consumer.shutdown() }
        }
    }

    private func read(_ batch: KafkaBatch) {
        state.withLock { state in
            for index in 0..<batch.count {
                guard let key = batch.key(index),
                    let header = batch.header(index, named: "freshet-revision"),
                    let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self))
                else { continue }
                let id = String(decoding: batch.bytes[key], as: UTF8.self)
                state.messages += 1
                guard abs(state.revisions[id] ?? 0) <= revision else { continue }
                state.revisions[id] = batch.value(index) == nil ? -revision : revision
            }
        }
    }
}
