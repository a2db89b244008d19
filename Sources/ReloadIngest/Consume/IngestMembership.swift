// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import Synchronization
import WidgetStore

/// Divides the partitions among the ingest processes.
///
/// Each process registers in the database every second. Partition n of a topic belongs to process (n + a hash of the
/// topic) modulo the number of processes. Processes may disagree for a moment: the process that takes a partition
/// raises its epoch, so only the latest owner can apply its events. Positions are in the database, so Kafka's group
/// protocol would add only its delays: 3 s before the first assignment, and the session timeout after a crash.
final class IngestMembership: Sendable {
    /// Partitions to give up and to take. A partition whose position another process has moved is in both.
    struct Change: Equatable {
        var released: Set<TopicPartition>
        var taken: Set<TopicPartition>

        var isEmpty: Bool { released.isEmpty && taken.isEmpty }

        /// - Parameters:
        ///   - held: epochs of the partitions that this process reads.
        ///   - share: partitions of this process.
        ///   - epochs: stored epochs of all partitions.
        init(
            from held: [TopicPartition: Int64], to share: Set<TopicPartition>, epochs: [TopicPartition: Int64],
            halted: Set<String>
        ) {
            let wanted = share.filter { !halted.contains($0.topic) }
            released = Set(
                held.filter { place, epoch in
                    !wanted.contains(place) || epochs[place].map { $0 > epoch } ?? false
                }.keys)
            taken = wanted.filter { held[$0] == nil }.union(released.intersection(wanted))
        }
    }

    private struct State {
        var topics: [String: [TopicPartition]] = [:]
        var unreadable: Set<String> = []
        var described: ContinuousClock.Instant?
        var isDoubtful = false
        var registered: ContinuousClock.Instant?
        /// Whether the last registration came so late that no share was computed.
        var wasLate = false
        var hasRetired = false
        /// Partitions of this process; nil before the first `look`.
        var share: Set<TopicPartition>?
        /// Stored epochs of all partitions.
        var epochs: [TopicPartition: Int64] = [:]
        var held: [TopicPartition: Int64] = [:]
    }

    /// Interval at which the topics' partitions are read.
    private static let describeInterval = Duration.seconds(30)

    private let id: UInt128
    private let pool: PostgresPool
    private let configuration: IngestConfiguration
    private let status: IngestStatus
    private let state = Mutex(State())

    init(pool: PostgresPool, configuration: IngestConfiguration, status: IngestStatus) {
        id = UInt128.random(in: 0 ... .max)
        self.pool = pool
        self.configuration = configuration
        self.status = status
    }

    /// Whether a `look` has computed this process's share.
    var hasShare: Bool { state.withLock { $0.share != nil } }

    /// The change to the share of the last `look`; nil before the first one.
    ///
    /// - Parameter held: epochs of the partitions that this process reads.
    func change(from held: [TopicPartition: Int64], halted: Set<String>) -> Change? {
        state.withLock { state in
            state.share.map { Change(from: held, to: $0, epochs: state.epochs, halted: halted) }
        }
    }

    /// Makes the next `look` ask the brokers. A process that does not reach the brokers does not register, so others
    /// read its partitions.
    ///
    /// - Returns: true if the brokers were not in doubt before.
    @discardableResult
    func doubtBrokers() -> Bool {
        state.withLock { state in
            defer { state.isDoubtful = true }
            return !state.isDoubtful
        }
    }

    /// Records the epochs of the partitions that this process reads.
    func hold(_ epochs: [TopicPartition: Int64]) {
        state.withLock { $0.held = epochs }
    }

    /// Registers the process and computes its share.
    ///
    /// - Returns: whether the share is the first one, or the process has partitions to give up or to take.
    func look(through consumer: KafkaConsumer, halted: Set<String>) async throws -> Bool {
        guard !state.withLock({ $0.hasRetired }) else { return false }
        try await describe(through: consumer)
        var pipeline = PostgresPipeline()
        let registered = pipeline.append(.registerIngest(id, timeout: configuration.memberTimeout))
        let stored = pipeline.append(.listPositions())
        let results = try await pool.run(pipeline)
        guard let member = results.rows(registered).first else { return false }
        let epochs = Dictionary(results.rows(stored).map { ($0.place, $0.epoch) }) { $1 }
        return state.withLock { state in
            let isLate = state.registered.map { $0.duration(to: .now) > configuration.memberTimeout } ?? false
            state.registered = .now
            state.wasLate = isLate && !state.wasLate
            // After an outage the others' registrations are old too, so this process would take everything.
            guard !state.wasLate else { return false }
            let share = Self.share(of: state.topics.values.joined(), rank: member.rank, among: member.count)
            let isFirst = state.share == nil
            (state.share, state.epochs) = (share, epochs)
            return isFirst || !Change(from: state.held, to: share, epochs: epochs, halted: halted).isEmpty
        }
    }

    /// Stops registering, because the positions belong to another Kafka cluster.
    func retire() async {
        state.withLock { $0.hasRetired = true }
        await leave()
    }

    /// Lets the other processes take the partitions at their next `look`.
    func leave() async {
        hold([:])
        state.withLock { $0.share = nil }
        _ = try? await pool.execute(.leaveIngest(id))
    }

    /// Reads the topics' partitions if the interval has passed. A topic that cannot be described keeps its previous
    /// partitions, unless it does not exist.
    ///
    /// - Throws: if the brokers are in doubt or unknown, and do not answer.
    private func describe(through consumer: KafkaConsumer) async throws {
        let known = state.withLock { $0 }
        let isRequired = known.isDoubtful || known.topics.isEmpty
        let interval = known.unreadable.isEmpty ? Self.describeInterval : configuration.recheckInterval
        guard isRequired || known.described.map({ $0.duration(to: .now) >= interval }) ?? true else { return }
        let found: [String: Result<[TopicPartition], KafkaError>]
        do {
            let admin = consumer.admin(timeout: known.topics.isEmpty ? .seconds(10) : .seconds(2))
            found = try await admin.partitions(of: configuration.topics.all)
        } catch {
            state.withLock { $0.described = .now }
            if isRequired { throw error }
            return
        }
        status.clearConsumerObstacle()
        for (topic, result) in found {
            switch result {
            case .success(let places):
                let wasUnreadable = state.withLock { state in
                    state.topics[topic] = places
                    return state.unreadable.remove(topic) != nil
                }
                if wasUnreadable { status.clearObstacle(ofTopic: topic) }
            case .failure(let error):
                state.withLock { state in
                    state.unreadable.insert(topic)
                    // The process gives up the topic's partitions, and compares the log when it takes them again.
                    if error.code == .unknownTopicOrPartition { state.topics[topic] = [] }
                }
                status.record(error)
            }
        }
        state.withLock { state in
            state.described = .now
            state.isDoubtful = false
        }
    }

    /// The partitions of one process. Each partition is assigned independently, so that processes agree on it even if
    /// they do not know the same partitions.
    static func share(
        of places: some Sequence<TopicPartition>, rank: Int, among count: Int
    ) -> Set<TopicPartition> {
        Set(places.filter { (UInt64($0.partition) + hash($0.topic)) % UInt64(count) == UInt64(rank) })
    }

    /// FNV-1a, which is the same in every process, with room for adding a partition's number.
    private static func hash(_ topic: String) -> UInt64 {
        topic.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 } >> 32
    }
}
