// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Synchronization
import TestSupport

/// Ends transactions on the input topics of an embedded cluster, as producers with a `transactional.id` do: a marker
/// occupies an offset without a message. The cluster accepts the requests of such producers but writes no markers, so
/// they are appended by hand.
final class TransactionMarkers: Sendable {
    private struct State {
        var random: SeededRandom
        var isUsed = false
        var writing = 0
        /// Number of reasons to write no marker.
        var barriers = 0
    }

    private let servers: String
    private let topics: [String]
    private let report: ChaosReport
    private let register: @Sendable (ChaosModel.Place) -> Void
    private let state: Mutex<State>

    /// - Parameter register: Receives the place of every marker.
    init(
        kafka: ChaosKafka, seed: UInt64, report: ChaosReport,
        register: @escaping @Sendable (ChaosModel.Place) -> Void
    ) {
        servers = kafka.configuration.bootstrapServers
        topics = kafka.topics.inputs
        self.report = report
        self.register = register
        state = Mutex(State(random: SeededRandom(seed: seed, stream: "transactions")))
    }

    /// Whether any transaction was ended.
    var isUsed: Bool { state.withLock { $0.isUsed } }

    /// Ends transactions that have written to these partitions.
    func end(_ partitions: Set<TopicPartition>) async {
        for partition in partitions {
            // An aborted transaction without messages now and then.
            let isAborted = state.withLock { $0.random.chance(0.1) }
            _ = await write(isAborted ? .abortMarker : .commitMarker, to: partition)
        }
    }

    /// Ends a transaction on every partition, so that each log ends with a marker.
    func endAll() async {
        for topic in topics {
            for partition in 0..<Int32(ChaosKafka.partitions) {
                let place = TopicPartition(topic: topic, partition: partition)
                var attempts = 0
                while !(await write(.commitMarker, to: place)), attempts < 100, !Task.isCancelled {
                    attempts += 1
                    try? await Task.sleep(for: .milliseconds(50))
                }
            }
        }
    }

    /// Runs the body while no marker is being written: the place of a marker whose acknowledgement is lost is unknown.
    func withoutMarkers(_ body: () throws -> Void) async throws {
        state.withLock { $0.barriers += 1 }
        defer { state.withLock { $0.barriers -= 1 } }
        while state.withLock({ $0.writing > 0 }) { try await Task.sleep(for: .milliseconds(5)) }
        try body()
    }

    /// - Returns: Whether the marker is written.
    private func write(_ content: RawRecordBatch.Content, to partition: TopicPartition) async -> Bool {
        let mayWrite = state.withLock { state in
            guard state.barriers == 0 else { return false }
            state.writing += 1
            state.isUsed = true
            return true
        }
        guard mayWrite else { return false }
        defer { state.withLock { $0.writing -= 1 } }
        do throws(RawRecordBatch.Failure) {
            let offset = try await RawRecordBatch(content).produce(
                to: servers, topic: partition.topic, partition: partition.partition)
            register(ChaosModel.Place(topic: partition.topic, partition: partition.partition, offset: offset))
            return true
        } catch {
            if error.isUncertain {
                report.violated(.exactlyOnce, "the evidence is broken: a marker of \(partition) is uncertain: \(error)")
            }
            return false
        }
    }
}
