import KafkaClient
import Logging
import Synchronization
import WidgetModel

/// Reads the topic of timelines while a scenario runs, as one of its consumers would: the highest revision of each
/// timeline counts.
final class OutputWatch: Sendable {
    private struct State {
        var isArmed = false
        var latest: [TimelineID: Int64] = [:]
        var messages = 0
        var unreadable = 0
        var gone = 0
        /// Behind the last message read.
        var next: [TopicPartition: Int64] = [:]
    }

    private let state = Mutex(State())

    /// From here on messages count; those before were only read.
    func arm() {
        state.withLock { $0.isArmed = true }
    }

    /// Messages, of those that count.
    var messages: Int { state.withLock { $0.messages } }
    /// Messages that are not what they should be, and those that the log dropped before they were read.
    var missed: Int { state.withLock { $0.unreadable + $0.gone } }
    /// The highest revision of each timeline.
    var latest: [TimelineID: Int64] { state.withLock { $0.latest } }

    /// Whether everything before these places was read.
    func hasReached(_ ends: [TopicPartition: Int64]) -> Bool {
        state.withLock { state in ends.allSatisfy { $0.value == 0 || (state.next[$0.key] ?? 0) >= $0.value } }
    }

    /// Reads until it is cancelled.
    ///
    /// - Parameter onPublished: told of each timeline that has a new revision: it must be quick.
    func run(
        _ consumer: KafkaConsumer, onPublished: (@Sendable (TimelineID) -> Void)? = nil, logger: Logger
    ) async throws {
        try await withTaskCancellationHandler {
            for try await event in consumer.events {
                switch event {
                case .assigned(let assignment): assignment.start(at: [:])
                case .revoked(let revocation): revocation.acknowledge()
                case .batch(let batch): for id in read(batch) { onPublished?(id) }
                case .offsetOutOfRange(let partition, let offset):
                    logger.error(
                        "timelines were dropped before they were read",
                        metadata: ["partition": "\(partition.partition)", "offset": "\(offset)"])
                    state.withLock { if $0.isArmed { $0.gone += 1 } }
                    try await consumer.seek([partition: .earliest])
                case .error(let error): logger.debug("output consumer", metadata: ["error": "\(error)"])
                }
            }
        } onCancel: {
            Task { await consumer.shutdown() }
        }
        await consumer.shutdown()
    }

    private func read(_ batch: KafkaBatch) -> [TimelineID] {
        state.withLock { state in
            var published: [TimelineID] = []
            for index in 0..<batch.count {
                state.next[batch.topicPartition(index)] = batch.records[index].offset + 1
                guard state.isArmed else { continue }
                state.messages += 1
                guard let key = batch.key(index), let id = TimelineID(bytes: batch.bytes[key]),
                    let header = batch.header(index, named: "freshet-revision"),
                    let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self))
                else {
                    state.unreadable += 1
                    continue
                }
                guard state.latest[id].map({ $0 < revision }) ?? true else { continue }
                state.latest[id] = revision
                published.append(id)
            }
            return published
        }
    }
}
